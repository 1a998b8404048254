"""Data sets that their authors publish: where their files are, or fetched whole when somebody agrees."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from dsgt.data.download import download_archive, download_files

VARIABLE = "DSGT_DATA"
YES = ("y", "Y", "yes", "Yes", "YES")


@dataclass(frozen=True)
class Published:
    """Addresses and checksums are those that torchvision publishes."""

    title: str
    folder: str
    """Below the directory that holds data sets."""
    files: tuple[str, ...]
    """Each may have .gz behind its name."""
    urls: dict[str, str]
    """Address -> MD5: of one .tar.gz that holds the folder, or of every file as .gz."""
    size: str = ""

    def locate(self, root: Path | str | None, *, download: bool | None) -> Path:
        """The folder with the files, downloaded first if it is missing and that is agreed to."""
        base = root if root is not None else os.environ.get(VARIABLE)
        if base is None:
            raise FileNotFoundError(
                f"where is {self.title}? Name the directory that holds or shall hold {self.folder}: with --data-dir on "
                f"the command line, as root in Python, or in the environment variable {VARIABLE}"
            )
        base = Path(base).expanduser()
        folder = base / self.folder
        missing = [name for name in self.files if not has(folder, name)]
        if not missing:
            return folder
        what, where = self._how()
        if folder.exists():
            raise FileNotFoundError(
                f"{folder} has no {', '.join(missing)}: the copy is incomplete; delete the folder to have it "
                f"downloaded again, or {what} {where} there"
            )
        if download is None and sys.stdin.isatty():
            download = input(f"{self.title} is not in {base}. Download {where}{self.size}? [y/N] ").strip() in YES
        if not download:
            raise FileNotFoundError(
                f"{self.title} is not in {base}. {what.capitalize()} {where} so that {folder} exists; or say yes when "
                "a command asks in a terminal; or give download=True to its reader in dsgt.data"
            )
        if self._archived:
            ((url, md5),) = self.urls.items()
            download_archive(url, md5, folder)
        else:
            download_files(self.urls, folder)
        return folder

    @property
    def _archived(self) -> bool:
        return all(url.endswith(".tar.gz") for url in self.urls)

    def _how(self) -> tuple[str, str]:
        first = next(iter(self.urls))
        return ("unpack", first) if self._archived else ("put", f"{len(self.urls)} files of {first.rpartition('/')[0]}")


def has(folder: Path, name: str) -> bool:
    return (folder / name).is_file() or (folder / f"{name}.gz").is_file()
