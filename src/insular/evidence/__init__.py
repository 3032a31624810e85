"""Evidence: what a run states, in files that say what they are and that nobody changed."""

from insular.evidence.arrays import ArrayFact, ArrayRef
from insular.evidence.codec import decode, encode, encode_json
from insular.evidence.collect import DEFAULT_PACKAGES, available_cores, collect_manifest
from insular.evidence.files import digest_array, sha256_of, write_atomic
from insular.evidence.folders import default_run_path
from insular.evidence.manifest import Failure, InputFact, MachineFacts, RunManifest, RunStatus
from insular.evidence.store import RunStore
from insular.evidence.toml import from_toml, to_toml

__all__ = [
    "DEFAULT_PACKAGES",
    "ArrayFact",
    "ArrayRef",
    "Failure",
    "InputFact",
    "MachineFacts",
    "RunManifest",
    "RunStatus",
    "RunStore",
    "available_cores",
    "collect_manifest",
    "decode",
    "default_run_path",
    "digest_array",
    "encode",
    "encode_json",
    "from_toml",
    "sha256_of",
    "to_toml",
    "write_atomic",
]
