"""A model by its hub name, where a hub can be reached; one quick, clear refusal elsewhere."""

from pathlib import Path

from insular.errors import ModelError

_TIMEOUT_S = 5.0
_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
_REMEDIES = (
    "use the alias smollm2, a folder with config.json and safetensors, or the path of a GGUF file"
)


def hub_folder(name: str) -> Path:
    """The local folder of a hub model, downloaded when it is not there yet.

    The hub is asked once and briefly whether it can be reached. Where it cannot, a copy that was
    downloaded before is used. Pickled weights are never downloaded.

    Args:
        name: ``NAME`` or ``OWNER/NAME``.

    Returns:
        A folder with configuration, safetensors and tokenizer.

    Raises:
        ModelError: If the name is not one, the hub has no such model or cannot be reached, or
            the download fails.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        HfApi().model_info(name, timeout=_TIMEOUT_S)
    except HFValidationError as error:
        raise ModelError(
            f"model '{name}' is no path that exists and no hub name; {_REMEDIES}."
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"model '{name}' is not on the hub, or is not open to you; {_REMEDIES}."
        ) from error
    except Exception as error:  # the HTTP client's errors share no public base
        return _downloaded_before(name, error)
    try:
        return Path(snapshot_download(name, allow_patterns=_FILES))
    except Exception as error:  # as above
        raise ModelError(
            f"model '{name}' could not be downloaded from the hub ({type(error).__name__}); try "
            f"again, or {_REMEDIES}."
        ) from error


def _downloaded_before(name: str, cause: Exception) -> Path:
    """The copy of a model in the hub's own cache."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):
        raise ModelError(
            f"model '{name}' is no path that exists, and no model hub can be reached to look it "
            f"up; {_REMEDIES}."
        ) from cause
