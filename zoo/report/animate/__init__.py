"""A page on which a sampler is watched at work: `folders` finds targets and samplers, `animate` writes the page.

A target is a file in `targets`, a sampler one in `samplers`; `page` holds the HTML, CSS and JavaScript.
"""
