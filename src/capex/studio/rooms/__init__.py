"""The rooms of the studio, in the order of its navigation. A room is a line here, a module beside
this one, and a page of its name in static/rooms.
"""

from capex.studio.rooms import arrange, calibration, campaigns, dataset, drive, episode, judge, live
from capex.studio.rooms.room import Room

ROOMS: tuple[Room, ...] = (
    campaigns.ROOM,
    live.ROOM,
    episode.ROOM,
    calibration.ROOM,
    judge.ROOM,
    arrange.ROOM,
    drive.ROOM,
    dataset.ROOM,
)
