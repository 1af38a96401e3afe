"""Configuration of the site; CONTRIBUTING.md has the command that builds it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from textwrap import shorten

import ziamath
from docutils import nodes
from sphinx import addnodes

import nearfar

sys.path.insert(0, str(Path(__file__).parent))
os.environ.pop("NEARFAR_DATA", None)

project = "nearfar"
author = "The nearfar developers"
copyright = author
version = release = nearfar.__version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
# Without prompts and output, and not on the output of examples.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = ":not(.sphx-glr-script-out) > div.highlight pre"
exclude_patterns = ["_build", "auto_examples/**/*.ipynb", "auto_examples/**/*.py"]
templates_path = ["_templates"]
nitpicky = True
default_role = "code"

myst_enable_extensions = ["colon_fence", "dollarmath"]
html_math_renderer = "mathml"
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
# Beside tests/docs/test_docstrings.py: unknown sections and their order, parameters that do not
# exist, and the form of summaries and types.
numpydoc_validation_checks = {
    *("GL05", "GL06", "GL07", "GL08", "GL09", "GL10"),
    *("PR02", "PR05", "PR06", "PR09", "PR10"),
    *("RT05", "SS01", "SS03", "SS04", "SS06"),
}
# Signatures of functions that forward show the parameters in place of these.
numpydoc_validation_overrides = {"PR02": [r"\*\*(?:options|reading)\n"]}

html_theme = "pydata_sphinx_theme"
html_title = "nearfar"
# A font for formulas, for systems that have none.
FONT = Path(ziamath.__file__).parent / "fonts/STIXTwoMath-Regular.ttf"
html_static_path = ["_static", str(FONT), "images/circles.png"]
html_css_files = ["nearfar.css"]
html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {
        "text": "nearfar",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": ["version"],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "start": []}
PARTS = ("start", "supervision", "methods", "scale", "deployment")
"""The parts of the gallery. Its index pages need their width for pictures."""
for page in ("index", *(f"{part}/index" for part in PARTS)):
    html_theme_options["secondary_sidebar_items"][f"auto_examples/{page}"] = []
# Where versions of the site are beside each other, each in a folder. Without it there is no menu of
# versions, and no page reads anything from the network.
site = os.environ.get("NEARFAR_SITE")
shown_version = "dev" if ".dev" in version else version
if site:
    html_baseurl = f"{site}/{shown_version}/"
    html_theme_options["navbar_end"].insert(0, "version-switcher")
    html_theme_options["switcher"] = {
        "json_url": f"{site}/dev/_static/versions.json",
        "version_match": shown_version,
    }
    html_theme_options["check_switcher"] = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "subsection_order": [f"../examples/{part}" for part in PARTS],
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "api/backreferences",
    "doc_module": ("nearfar",),
    "matplotlib_animations": True,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "ignore_repr_types": r"matplotlib|ndarray|list",  # axes, texts
    "image_srcset": [],
    "thumbnail_size": (560, 400),
    "min_reported_time": 10,
}


def _skip_inherited(_app, _what, _name, member, skip, _options):
    """Leave out what scikit-learn and Python document, and plain values: defaults, traits."""
    if isinstance(member, bool | int | float | str | tuple | dict | frozenset | None):
        return True
    function = getattr(member, "func", None) or getattr(member, "__func__", member)
    home = getattr(function, "__module__", None) or ""
    ours = home.startswith("nearfar") or not callable(function)
    return skip or not ours or type(member).__name__ == "RequestMethod"


_ICONS = {
    "fa fa-minus": "−",
    "fa fa-fast-backward": "⏮",
    "fa fa-step-backward": "◂",
    "fa fa-play fa-flip-horizontal": "◀",
    "fa fa-pause": "❚❚",
    "fa fa-play": "▶",
    "fa fa-step-forward": "▸",
    "fa fa-fast-forward": "⏭",
    "fa fa-plus": "+",
}


def _no_icon_font(_app, docname, source):
    """Write the buttons of animations with characters; matplotlib takes them from another host."""
    if not docname.startswith("auto_examples/") or "font-awesome" not in source[0]:
        return
    text = re.sub(r'<link[^>]*font-awesome[^>]*>|(?<=href=)"[^"]*font-awesome[^"]*"', "", source[0])
    for name, character in _ICONS.items():
        text = text.replace(f'<i class="{name}"></i>', character)
    text = re.sub(r'(?<=<img )(?=id="_anim_img)', 'alt="Animation" ', text)
    text = re.sub(r'(?<=<input )(?=id="_anim_slider)', 'aria-label="Frame" ', text)
    source[0] = text


def _describe_figures(_app, doctree):
    """Let the caption stand for a picture that has no description, in place of its file name."""
    for figure in doctree.findall(nodes.figure):
        for image in figure.findall(nodes.image):
            caption = next(figure.findall(nodes.caption), None)
            if "alt" not in image and caption is not None:
                image["alt"] = caption.astext()


def _keep_numbers(_app, doctree):
    """Keep a number in a table on one line with its deviation, its sign of percent and verdict."""
    for entry in doctree.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            kept = re.sub(r" (?=[±%→≈=−+·?†](?![\w.]))|(?<=[±→]) ", "\xa0", text)
            if kept != text:
                text.parent.replace(text, nodes.Text(kept))


def _group_names(app, doctree):
    """Put the headings of the API's page over its names in the navigation."""
    if app.env.docname != "api/index":
        return
    for section in doctree.findall(nodes.section):
        for child in section.children:
            tree = next(child.findall(addnodes.toctree), None)
            if not isinstance(child, nodes.section) and tree is not None:
                tree["caption"] = tree["rawcaption"] = section[0].astext()
                break


def _describe_page(app, pagename, _template, context, doctree):
    """Tell search engines, and whoever shows a link, what the page is about."""
    if pagename == "index":
        context["title"] = "Learn the distance your task needs"
    asides = (nodes.note, nodes.table, nodes.figure)
    for paragraph in doctree.findall(nodes.paragraph) if doctree else ():
        node, text = paragraph.parent, " ".join(paragraph.astext().split())
        while node is not None and not isinstance(node, asides):
            node = node.parent
        if node is None and text:
            break
    else:
        return
    tags = {
        "og:type": "website",
        "og:site_name": project,
        "og:title": re.sub("<.*?>", "", context["title"]),
        "og:description": shorten(text, 200, placeholder=" …"),
    }
    if site:
        tags["og:url"] = context["pageurl"]
        tags["og:image"] = f"{app.config.html_baseurl}_static/circles.png"
    for name, value in tags.items():
        context["metatags"] += f'<meta property="{name}" content="{escape(value)}" />\n'
    text = escape(tags["og:description"])
    context["metatags"] += f'<meta name="description" content="{text}" />\n'


def _write_versions(app, error):
    """Write the menu of versions: the development version, and every tag of a release."""
    if site and error is None and app.builder.name == "html":
        tags = subprocess.run(
            ["git", "tag", "--list", "v*", "--sort=-version:refname"],
            cwd=app.srcdir,
            capture_output=True,
            text=True,
            check=True,
        )
        names = ["dev", *(tag.removeprefix("v") for tag in tags.stdout.split())]
        versions = [{"version": name, "url": f"{site}/{name}/"} for name in names]
        Path(app.outdir, "_static/versions.json").write_text(json.dumps(versions, indent=1) + "\n")


def setup(app):
    """Connect the hooks above."""
    app.connect("build-finished", _write_versions)
    app.connect("autodoc-skip-member", _skip_inherited)
    app.connect("source-read", _no_icon_font)
    app.connect("doctree-read", _describe_figures)
    app.connect("doctree-read", _keep_numbers)
    app.connect("doctree-read", _group_names, priority=100)  # before it is collected
    app.connect("html-page-context", _describe_page)
