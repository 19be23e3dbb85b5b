"""The studio: run directories in a browser, to watch, to understand, to judge.

`app.py` joins the rooms; a room is one module of `rooms/` with its routes and one of
`static/rooms/` with its page. `guard.py` decides who may ask. Nothing is fetched from outside.
"""
