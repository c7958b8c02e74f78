"""A virtual environment with the packages that a test of the server needs, made once."""

import subprocess
import venv


def python_with(folder, requirements):
    """The interpreter of the environment in `folder`."""
    python = folder / "bin/python"
    done = folder / "installed"
    if not done.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], check=True)
        done.touch()
    return python
