"""Offscreen OpenGL for MuJoCo worlds: one context per process, RGB and metric depth, no side
effects on the simulation.

A context belongs to one thread. All drawing happens on a thread of its own, so that environments
may be used from any: several episodes of a campaign share a process, and their threads take turns.

Backends: EGL first and OSMesa second on Linux, the native one on macOS and Windows; MUJOCO_GL
overrides. Shadows are off by default: in software rendering they cost ten times the rest.
"""

from __future__ import annotations

import atexit
import importlib
import math
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import mujoco
import numpy as np
import numpy.typing as npt

from capex.errors import CapexError, GLUnavailable
from capex.worlds import Image

PACKAGES = "libegl1 libgl1 (or libosmesa6)"
MAX_SIZE = 4096

T = TypeVar("T")
Size = tuple[int, int]  # width, height

_context: Any = None
_backend = ""


class _DrawingThread:
    """Runs what it is given, one after the other, on the thread that holds the GL context."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, or what it raised."""
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(None, self._serve, "capex drawing", daemon=True)
                self._thread.start()
        return self.post(work).result()

    def post(self, work: Callable[[], T]) -> Future[T]:
        """The same without waiting; safe wherever the garbage collector may call it."""
        future: Future[T] = Future()
        self._work.put((future, work))
        return future

    def _serve(self) -> None:
        while True:
            future, work = self._work.get()
            try:
                future.set_result(work())
            except BaseException as error:  # whoever asked gets it
                future.set_exception(error)


_drawing = _DrawingThread()


def backend() -> str:
    """Name of the OpenGL backend in use, loading it if need be; GLUnavailable if none loads."""
    _drawing.run(_ensure_context)
    return _backend


def renderer_name() -> str:
    """What OpenGL calls its renderer, for example the software rasterizer or a graphics card."""
    return _drawing.run(_renderer_name)


def _renderer_name() -> str:
    _ensure_context()
    _context.make_current()
    from OpenGL import GL

    name = GL.glGetString(GL.GL_RENDERER)
    return name.decode("ascii", "replace") if isinstance(name, bytes) else "unknown"


def _candidates() -> tuple[str, ...]:
    asked = os.environ.get("MUJOCO_GL", "").strip().lower()
    if asked:
        return (asked,)
    if sys.platform == "darwin":
        return ("cgl",)
    if sys.platform == "win32":
        return ("glfw",)
    return ("egl", "osmesa")


def _ensure_context() -> None:
    global _context, _backend
    if _context is not None:
        return
    reasons = []
    for name in _candidates():
        # PyOpenGL chooses its platform once, at its first import; MuJoCo's modules insist on a
        # matching one.
        platform = os.environ.get("PYOPENGL_PLATFORM")
        if name in ("egl", "osmesa"):
            os.environ["PYOPENGL_PLATFORM"] = name
        try:
            context = importlib.import_module(f"mujoco.{name}").GLContext(64, 64)
            context.make_current()
        except Exception as error:  # any failure of a foreign GL stack means: try the next backend
            reasons.append(f"{name}: {type(error).__name__}: {error}")
            if platform is None:
                os.environ.pop("PYOPENGL_PLATFORM", None)
            prefixes = ("OpenGL.", "mujoco.egl", "mujoco.osmesa")
            for module in [m for m in sys.modules if m == "OpenGL" or m.startswith(prefixes)]:
                del sys.modules[module]
            continue
        _context, _backend = context, name
        # While the GL library is still loaded and its thread still runs; the context's own
        # destructor comes too late.
        atexit.register(_drawing.run, context.free)
        return
    raise GLUnavailable(
        f"no OpenGL backend could be loaded ({'; '.join(reasons)}); on Debian or Ubuntu install"
        f" {PACKAGES}: apt-get install libegl1 libgl1"
    )


class Renderer:
    """Renders one model; cheap to keep, its textures and meshes live on the GL side until `close`.

    `groups` are the groups of shapes that are drawn; `sites` draws sites too, which some worlds use
    for flames and water.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        shadows: bool = False,
        samples: int = 0,
        max_geoms: int = 2000,
        groups: Sequence[int] = (0, 1, 2),
        sites: bool = False,
    ):
        self._model = model
        _drawing.run(lambda: self._open(shadows, samples, max_geoms, groups, sites))

    def _open(
        self, shadows: bool, samples: int, max_geoms: int, groups: Sequence[int], sites: bool
    ) -> None:
        _ensure_context()
        model = self._model
        _context.make_current()
        model.vis.quality.offsamples = samples
        model.vis.quality.shadowsize = 2048 if shadows else 0
        self._size = (int(model.vis.global_.offwidth), int(model.vis.global_.offheight))
        self._gl = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._gl)
        self._gl.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        self._scene = mujoco.MjvScene(model, maxgeom=max_geoms)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadows
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = True
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = [group in groups for group in range(6)]
        self._option.sitegroup[:] = [sites and group < 3 for group in range(6)]
        self._perturb = mujoco.MjvPerturb()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._forgotten = weakref.finalize(self, _drawing.post, lambda gl=self._gl: _free(gl))
        self._forgotten.atexit = False

    def rgb(self, data: mujoco.MjData, camera: int, size: Size) -> Image:
        """Upright RGB (height, width, 3)."""
        return _drawing.run(lambda: self._rgb(data, camera, size))

    def _rgb(self, data: mujoco.MjData, camera: int, size: Size) -> Image:
        width, height = self._draw(data, camera, size)
        image = np.empty((height, width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(image, None, mujoco.MjrRect(0, 0, width, height), self._gl)
        return np.ascontiguousarray(image[::-1])

    def depth(self, data: mujoco.MjData, camera: int, size: Size) -> npt.NDArray[np.float32]:
        """Metric depth along the optical axis (height, width); infinite where nothing is seen."""
        return _drawing.run(lambda: self._depth(data, camera, size))

    def _depth(self, data: mujoco.MjData, camera: int, size: Size) -> npt.NDArray[np.float32]:
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = False
        width, height = self._draw(data, camera, size)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = True
        raw = np.empty((height, width), dtype=np.float32)
        mujoco.mjr_readPixels(None, raw, mujoco.MjrRect(0, 0, width, height), self._gl)
        # The buffer holds 1 at the near plane and 0 at the far one (better spread of the float): z
        # = near far / (near + raw (far - near)).
        near = float(self._model.vis.map.znear * self._model.stat.extent)
        far = float(self._model.vis.map.zfar * self._model.stat.extent)
        metric = near * far / (near + raw[::-1].astype(np.float64) * (far - near))
        return np.where(raw[::-1] <= 0.0, np.inf, metric).astype(np.float32)

    def _draw(self, data: mujoco.MjData, camera: int, size: Size) -> Size:
        width, height = (int(s) for s in size)
        if not (1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE):
            raise CapexError(
                f"image size {width}x{height}; width and height must lie between 1 and {MAX_SIZE}"
            )
        _context.make_current()
        if width > self._size[0] or height > self._size[1]:
            self._size = (max(width, self._size[0]), max(height, self._size[1]))
            mujoco.mjr_resizeOffscreen(self._size[0], self._size[1], self._gl)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._gl)
        self._camera.fixedcamid = camera
        shown, everything = self._option, mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(
            self._model, data, shown, self._perturb, self._camera, everything, self._scene
        )
        mujoco.mjr_render(mujoco.MjrRect(0, 0, width, height), self._scene, self._gl)
        return width, height

    def close(self) -> None:
        """Free the GL side; the drawing thread frees that of a renderer dropped without it."""
        if self._forgotten.detach() is not None:
            _drawing.run(lambda: _free(self._gl))


def _free(gl: Any) -> None:
    _context.make_current()
    gl.free()


def intrinsics(fovy_deg: float, size: tuple[int, int]) -> npt.NDArray[np.float64]:
    """Pinhole matrix (3,3) of a camera with square pixels; the first centre is (0.5, 0.5)."""
    width, height = size
    focal = 0.5 * height / math.tan(math.radians(fovy_deg) / 2)
    return np.array([[focal, 0.0, width / 2], [0.0, focal, height / 2], [0.0, 0.0, 1.0]])
