"""Why did the object store say no, and what should the reader do about it?

Pure. obstore tells a few reasons apart by class; the others only by the server's own words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from backhaul.errors import BackhaulError, StoreRefused, StoreUnavailable
from backhaul.store.location import Location


@dataclass(frozen=True)
class _Reason:
    words: re.Pattern[str]
    says: str
    remedy: str


def _reason(words: str, says: str, remedy: str) -> _Reason:
    return _Reason(re.compile(words, re.IGNORECASE), says, remedy)


# In this order: the first whose words occur. {bucket} and {endpoint} are filled in.
_REFUSALS = (
    _reason(
        r"NoSuchBucket|specified bucket does not exist|bucket not found",
        "there is no bucket {bucket}",
        "create the bucket {bucket}, or correct store.url",
    ),
    _reason(
        r"InsufficientStorage|StorageFull|QuotaExceeded|EntityTooLarge|status code: (413|507)",
        "the store is full",
        "free space there, then run the same command again",
    ),
    _reason(
        r"configured region|AuthorizationHeaderMalformed|PermanentRedirect|IncorrectEndpoint",
        "the bucket {bucket} is in another region",
        "set store.region to the region of the bucket",
    ),
    _reason(
        r"SignatureDoesNotMatch|InvalidAccessKeyId|InvalidClientTokenId|ExpiredToken|InvalidToken"
        r"|TokenRefreshRequired|status code: 401|Unauthenticated|invalid_grant",
        "the store does not accept our credentials",
        "check store.access_key_id and store.secret_access_key (or the environment's credentials), "
        "and the clock of this machine",
    ),
    _reason(
        r"AccessDenied|PermissionDenied|status code: 403|lacked the required privileges",
        "our credentials do not allow it",
        "see that store.access_key_id is the user you mean, and grant it read, write, list and "
        "delete on the bucket {bucket}",
    ),
    _reason(
        r"MethodNotAllowed|ObjectLocked|InvalidObjectState|InvalidRequest\b.*retention",
        "the bucket {bucket} does not let objects be written or deleted",
        "take retention or read-only settings off the bucket, or set another store.url",
    ),
)
_NO_CREDENTIALS = _reason(
    # Without any, the driver asks the cloud's machine for them; elsewhere nobody answers there.
    r"169\.254\.169\.254|metadata\.google",
    "we have no credentials for it",
    "set store.access_key_id and store.secret_access_key, or give the environment's own "
    "(docs/reference/store.md lists them)",
)
# Names of tables and buckets occur in these, and must not be taken for the server's words.
_NAMES = re.compile(
    r"https?://\S+|Object at location .*? not found|for path .*?: Error"
    r"|<(?:Key|Resource|BucketName|Prefix)>.*?</",
    re.DOTALL,
)
_ANSWER = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)
_UNKNOWN_OPTION = re.compile(r"configuration key", re.IGNORECASE)


def explain(error: BaseException, failed: str, location: Location) -> BackhaulError:
    """The error to raise in place of the driver's."""
    names = {"bucket": location.root, "endpoint": location.endpoint or "its address"}
    reason = _refusal(error)
    if reason is None:
        return _without_reason(error, failed, names["endpoint"])
    says, remedy = reason.says.format(**names), reason.remedy.format(**names)
    return StoreRefused(f"{failed}: {says} ({_short(error)})", remedy=remedy)


def _refusal(error: BaseException) -> _Reason | None:
    if _NO_CREDENTIALS.words.search(_message(error)):
        return _NO_CREDENTIALS
    said = f"{type(error).__name__} {_said(error)}"
    return next((reason for reason in _REFUSALS if reason.words.search(said)), None)


def bucket_missing(error: BaseException) -> bool:
    """Whether a 404 is about the bucket rather than the object."""
    return bool(_REFUSALS[0].words.search(_said(error)))


def _without_reason(error: BaseException, failed: str, endpoint: str) -> BackhaulError:
    message = f"{failed}: {_short(error)}"
    if isinstance(error, FileNotFoundError):
        return StoreRefused(
            message, remedy="it was moved or deleted; see what else uses this store"
        )
    if _UNKNOWN_OPTION.search(message):
        return StoreRefused(message, remedy="correct the names under store.options")
    return StoreUnavailable(
        message, remedy=f"see whether {endpoint} can be reached from here, then run it again"
    )


def _said(error: BaseException) -> str:
    """The server's words alone."""
    return _NAMES.sub("", _message(error))


def _message(error: BaseException) -> str:
    """Without the driver's debug dump, which repeats the message with the request's parts."""
    return str(error).split("\n\nDebug source", 1)[0]


def _short(error: BaseException) -> str:
    """One line; of an XML answer only its code and its message."""
    message = _message(error)
    answer = _ANSWER.search(message)
    if answer:
        message = f"{answer[1]}: {answer[2]}"
    return " ".join(message.split())[:400]
