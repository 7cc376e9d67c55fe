"""The right answers: every number the acceptance tests compare with, and where it comes from.

Three kinds of source: a closed form, quadrature (adaptive, to 1e-10), or a published table, which is named.
"""

from __future__ import annotations

# -- the lecture's coin: theta ~ Beta(a, b) ------------------------------------------------------------------

# Closed form (Beta-Bernoulli conjugacy): two flips, both heads. Yandex, "Bayes' theorem".
TWO_HEADS_UNIFORM = {"mean": 0.75, "sd": 0.1936491673, "evidence": 1 / 3, "map": 1.0}
TWO_HEADS_BETA22 = {"mean": 0.6666666667, "sd": 0.1781741613, "evidence": 0.3, "map": 0.75}

# Closed form; entropies by quadrature over Beta(9, 5): Beta(2, 2), 7 heads of 10.
COIN = {
    "mean": 0.642857142857,
    "sd": 0.123717914826,
    "map": 0.666666666667,
    "log_evidence": -6.977747650802,
    "interval95": (0.3857383382, 0.8614206611),
    "predictive_entropy": 0.651756561173,
    "expected_entropy": 0.617463687107,
    "mutual_information": 0.034292874066,
    # Closed form: log density of logit(theta) at its mode and its second derivative there.
    "laplace_mode": 0.5877866649,
    "laplace_sd": 0.5577733510,
    "laplace_log_evidence": -6.9976964341,
}
# Closed form: Beta(1, 1), no head in five; the posterior Beta(1, 6) has its mode at the boundary 0.
COIN_NO_HEADS = {"mean": 0.142857142857, "log_evidence": -1.791759469228, "laplace_mode": -1.791759}
# Closed form: Beta(1, 1), 7 of 10: Beta(8, 4).
COIN_UNIFORM = {"mean": 8 / 12, "sd": (8 * 4 / (12**2 * 13)) ** 0.5}

# -- a location with a known noise of 1 ----------------------------------------------------------------------

LOCATION_Y = [1.2, 0.4, 0.9, 1.5, 0.1]
# Closed form: theta ~ N(0, 1).
LOCATION_NORMAL = {"mean": 0.683333333333, "sd": 0.408248290464, "log_evidence": -6.424739067304}
# Quadrature: theta ~ Laplace(0, .5).
LOCATION_LAPLACE = {
    "map": 0.42,
    "mean": 0.494365606957,
    "sd": 0.391333484203,
    "log_evidence": -6.467859033367,
}
# Quadrature: theta ~ Laplace(0, .25); the MAP is at the prior's kink.
KINK_Y = [0.3, -0.2, 0.25, 0.05]
KINK = {"map": 0.0, "mean": 0.025416433631, "sd": 0.252663919845}
# Closed form: x ~ N(0, 1), 10 ~ N(x, .5).
ONE_OBSERVATION = {"mean": 8.0, "sd": 0.2**0.5}
# Closed form: X = [[i, 1]], y = i, i = 0 ... 99, w ~ N(5, 10) (2,), y ~ N(X w, 1).
STEEP_LINE = {"mean": (0.99997, 0.00195), "sd": (0.00346, 0.1985), "correlation": -0.864}

# -- Bayesian linear regression: concrete, split 0 -----------------------------------------------------------

# Closed form (Bishop 2006, eq. 3.49-3.58); columns standardised, bias column last, w ~ N(0, 1), noise sd .6.
CONCRETE = {
    "log_evidence": -905.52472358,
    "mean": (
        *(0.7613168891, 0.5517230066, 0.3564355065, -0.1888939371, 0.0967677117),
        *(0.0901729621, 0.1085771517, 0.4326736693, 0.0),
    ),
    "sd": (
        *(0.0537982769, 0.0529435941, 0.0490695672, 0.0521276476, 0.0338014964),
        *(0.0441292936, 0.0514280628, 0.0207902835, 0.0197027602),
    ),
    "mean_field_sd": 0.0197027602,
    "mean_field_elbo": -907.53935868,
    "rmse": 11.04751505,
    "test_log_likelihood": -3.83059414,
    "loo": -882.27621041,
}

# Closed form: a line, prior precision 2, noise .2. Thome, "Bayesian linear regression".
LINE_Y = [
    *(-0.71075, -0.363213, -0.176288, 0.041064, -0.349397, -0.132045, 0.05488, 0.402416, -0.095336),
    *(0.095087, 0.29974, -0.097977, 0.138904, 0.324159, 0.594288, 0.170561, 0.366667, 0.562772),
    *(0.139045, 0.409174, 0.594429, 0.83131, 0.433594, 0.638247, 0.828669),
]
LINE = {
    "mean": (-0.3306692271, 0.5317273686),
    "sd": (0.0769473614, 0.0659828068),
    "log_evidence": -0.08933312,
    "predictive_at": (0.0, 1.0, 2.0, 10.0),
    "predictive_variance": (0.0459208964, 0.0415949406, 0.0459764464, 0.3944971096),
    "mean_field_sd": (0.0399361531, 0.0342454797),
    "mean_field_elbo": -0.7451726760,
    # The course code's precision 1 / (2 noise^2) gives these instead: the broken twin.
    "half_precision_sd": (0.1078437, 0.0925155),
}
# Closed form: the same line after its first n rows: n -> (mean, epistemic variance at x = 1).
LINE_AFTER = {
    0: ((0.0, 0.0), 1.0),
    1: ((-0.6581018, 0.0), 0.5370370),
    2: ((-0.5224428, 0.1526164), 0.4600984),
    5: ((-0.4039841, 0.5923860), 0.1922223),
    10: ((-0.4069638, 0.7649635), 0.0277218),
    25: ((-0.3306692, 0.5317274), 0.0015949),
}

# -- logistic regression: German credit ----------------------------------------------------------------------

# Published: TFP Inference Gym's ground truth for German credit (numeric), w ~ N(0, 1), bias last.
CREDIT = {
    "mean": (
        *(-0.7351048554, 0.4185423545, -0.4140361023, 0.1268726254, -0.3645358412, -0.1786990236),
        *(-0.1528721120, 0.0130935930, 0.1807161821, -0.1107784075, -0.2243483798, 0.1223953816),
        *(0.0287758500, -0.1362820897, -0.2922211050, 0.2783575898, -0.2996277708, 0.3037273418),
        *(0.2703879158, 0.1225156464, -0.0629305409, -0.0927173404, -0.0253862650, -0.0229520919),
        -1.2033366774,
    ),
    "sd": (
        *(0.08983137, 0.10433393, 0.09494359, 0.10821560, 0.09451801, 0.09209987, 0.08194571),
        *(0.09096249, 0.10427142, 0.09706665, 0.07886872, 0.09415178, 0.08568162, 0.09463565),
        *(0.11794843, 0.08278578, 0.10338649, 0.12112997, 0.11129991, 0.13748697, 0.14311734),
        *(0.09036915, 0.12757407, 0.12488838, 0.09189586),
    ),
    "se": 6e-5,
    # Newton's method to 1e-12 in float64; Laplace from its Hessian.
    "map_log_joint": -492.11393142,
    "laplace_log_evidence": -529.41064605,
}

# -- the smallest neural network with an exact posterior -----------------------------------------------------

# Quadrature on a 2-D grid: y = w2 tanh(w1 x) + N(0, .3), w1, w2 ~ N(0, 1.5).
TWO_WEIGHTS_X = [-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0]
TWO_WEIGHTS_Y = [-1.1, -0.7, -0.9, -0.3, 0.1, 0.4, 0.6, 1.0, 0.8]
TWO_WEIGHTS = {
    "log_evidence": -1.44763945,
    "map": (0.797184572, 1.0320383617),
    "map_log_joint": -1.36308328,
    "abs_mean": (0.9909044279, 1.1422806932),
    "abs_sd": (0.6001567816, 0.4616476232),
    "product_mean": 0.9574137024,
    "f_at": (0.5, 1.5, 3.0),
    "f_mean": (0.4221128046, 0.8330302704, 1.0257363663),
    "f_sd": (0.1209531160, 0.1213970050, 0.2380128653),
    "laplace_one_mode": -2.23485866,
    "laplace_two_modes": -1.54171148,
    "mean_field_elbo": -2.86659013,
    "mean_field_mean": (1.1019355715, 0.9231863919),
    "mean_field_sd": (0.2894361336, 0.1307097722),
    "mean_field_f3_sd": 0.13316,
}

# -- the prior of a neural network ---------------------------------------------------------------------------

# Quadrature: w1, b1, b2 of sd 1, w2 of sd 1 / sqrt(hidden), tanh; the same at every width (Neal 1996).
PRIOR_AT = (0.0, 1.0, 2.0, 4.0)
PRIOR_VARIANCE = (1.3942944904, 1.5199757457, 1.6684448850, 1.8109444665)
PRIOR_COVARIANCE_1_2 = 1.5434840992
PRIOR_EXCESS_KURTOSIS = 0.154634  # of f(1), divided by the number of hidden units

# -- one logit under a Gaussian ------------------------------------------------------------------------------

# Quadrature: the integral of sigmoid(a) N(a | m, v); kappa: sigmoid(m / sqrt(1 + pi v / 8)) (MacKay 1992).
LOGIT_INTEGRAL = {  # (m, v): exact, kappa
    (1.0, 1.0): (0.696734670144, 0.700014440706),
    (1.0, 4.0): (0.647726438526, 0.651056462046),
    (2.0, 9.0): (0.717423985896, 0.718945541293),
    (-1.5, 2.25): (0.254309339690, 0.251063302407),
}

# -- probabilistic PCA of scikit-learn's digits --------------------------------------------------------------

# Closed form (Tipping & Bishop 1999) on the 1,797 digits / 16: mean log p(y) an image at the maximum likelihood, which
# is the best ELBO of a linear VAE with a diagonal posterior, and the decoder's variance.
PPCA = {  # latent coordinates
    2: {"elbo": 0.00570672, "variance": 0.0541169847},
    8: {"elbo": 14.20978832, "variance": 0.0273294319},
}

# y ~ N(a, .25), a ~ N(mu, s^2), y with variance 1: the marginal likelihood is best at s^2 = 1 - .25.
ACTIVATION_VARIANCE = 0.75
