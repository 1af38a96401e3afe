"""Commands that are not functions yet; `nearfar.cli` lists them."""
