"""Builds the wheel: the extension tandem._core, the library that it calls, and the
command. Library and command come from `make` in the directory above."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

here = Path(__file__).resolve().parent
root = here.parent
build = Path(os.environ.get("TANDEM_BUILD", root / "build"))
header = (root / "include/tandem/version.h").read_text()
version = re.search(r'VERSION_STRING "([^"]+)"', header).group(1)


def write_schemas(command, file):
    """The schemas of all ops as a Python module, for rows that follow from them."""
    ops = json.loads(subprocess.check_output([str(command), "ops", "--json"]))
    rows = "".join(f"    {op['name']!r}: ({op['schema']!r}, {op['flags']!r}),\n" for op in ops)
    file.write_text('"""Generated: schemas and flags of Tandem\'s ops."""\n'
                    f"SCHEMAS = {{\n{rows}}}\n")


class BuildCore(build_ext):
    """Copies libtandem.so and the command into the package, then links against the copy."""

    def run(self):
        make = os.environ.get("TANDEM_MAKE", f"make -C {root} -j2")
        if "TANDEM_BUILD" not in os.environ:
            subprocess.check_call([*make.split(), "build/libtandem.so", "build/tandem"])
        places = [Path(self.build_lib) / "tandem"]
        if self.inplace:
            places.append(here / "tandem")
        for package in places:
            (package / "bin").mkdir(parents=True, exist_ok=True)
            shutil.copy2(build / "libtandem.so", package / "libtandem.so.0")
            shutil.copy2(build / "tandem", package / "bin/tandem")
            write_schemas(build / "tandem", package / "_schemas.py")
        core.library_dirs = [str(build)]
        super().run()


core = Extension(
    "tandem._core",
    sorted(f"src/{p.name}" for p in (here / "src").glob("*.c")),
    include_dirs=[str(root / "include")],
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra"],
    extra_link_args=["-l:libtandem.so", "-Wl,-rpath,$ORIGIN"],
    depends=["src/core.h"],
    py_limited_api=True,
)



def node():
    """tandem._node, for the PyTorch of this Python; None where there is none. The package
    works without it, and so it does if the compiler refuses it."""
    try:
        import torch
        from torch.utils.cpp_extension import include_paths
    except ImportError:
        return None
    return Extension(
        "tandem._node",
        ["torch_node/node.cpp"],
        language="c++",
        define_macros=[("TANDEM_TORCH_VERSION", f'"{torch.__version__}"')],
        extra_compile_args=["-std=c++20", "-O2", "-fvisibility=hidden",
                            *[f"-isystem{p}" for p in include_paths()]],
        library_dirs=[str(Path(torch.__file__).parent / "lib")],
        libraries=["torch_python", "torch_cpu", "c10"],
        optional=True,
    )


extensions = [e for e in (core, node()) if e]
setup(
    version=version,
    ext_modules=extensions,
    cmdclass={"build_ext": BuildCore},
    # Without _node one wheel serves all versions of Python.
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if extensions == [core] else {},
)
