"""Is the reason found in the server's words, and only there?"""

from __future__ import annotations

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from backhaul.errors import StoreRefused, StoreUnavailable
from backhaul.store.location import Location
from backhaul.store.refusal import bucket_missing, explain

PLACE = Location("s3", "lake", "p", "http://store:9000")
HEAD = "Generic S3 error: Error performing PUT http://store:9000/lake/p/x in 3ms - "
STATUS = HEAD + "Server returned non-2xx status code: "


def answer(status: str, code: str, message: str) -> str:
    body = f"<Error><Code>{code}</Code><Message>{message}</Message><Key>p/403</Key></Error>"
    return f"{STATUS}{status}: <?xml version='1.0'?>{body}\n\nDebug source:\nGeneric {{ ... }}"


@pytest.mark.parametrize(
    ("text", "says", "remedy"),
    [
        (answer("404 Not Found", "NoSuchBucket", "gone"), "no bucket lake", "create the bucket"),
        (answer("507 Insufficient", "XMinioStorageFull", "no room"), "store is full", "free space"),
        (answer("413 Large", "EntityTooLarge", "too big"), "store is full", "free space"),
        (
            HEAD + "Received redirect without LOCATION, this normally indicates an incorrectly "
            "configured region",
            "another region",
            "store.region",
        ),
        (
            answer("400 Bad Request", "AuthorizationHeaderMalformed", "expecting 'eu-west-1'"),
            "another region",
            "store.region",
        ),
        (
            answer("403 Forbidden", "SignatureDoesNotMatch", "no"),
            "credentials",
            "secret_access_key",
        ),
        (answer("400 Bad Request", "ExpiredToken", "old"), "credentials", "secret_access_key"),
        (answer("403 Forbidden", "AccessDenied", "no"), "do not allow it", "grant it read, write"),
        (answer("405 No", "MethodNotAllowed", "no"), "written or deleted", "retention"),
        (
            (
                "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1s "
                "after 10 retries - HTTP error: error sending request"
            ),
            "no credentials",
            "store.access_key_id",
        ),
    ],
)
def test_a_refusal_has_its_remedy(text: str, says: str, remedy: str) -> None:
    error = explain(GenericError(text), "cannot write x", PLACE)
    assert isinstance(error, StoreRefused)
    assert says in error.message and remedy in str(error.remedy)
    assert "Debug source" not in error.message and "<Code>" not in error.message


def test_names_are_not_the_servers_words() -> None:
    table = "SignatureDoesNotMatch 403 NoSuchBucket"
    for text in (
        (
            f"Generic S3 error: Error performing PUT http://store:507/{table.replace(' ', '%20')} in "
            "3s, after 8 retries - HTTP error: operation timed out"
        ),
        answer("503 Slow Down", "SlowDown", "later").replace("p/403", table),
    ):
        error = explain(GenericError(text), f"cannot write {table}", PLACE)
        assert isinstance(error, StoreUnavailable)
        assert "http://store:9000" in str(error.remedy)


def test_a_missing_object_is_no_missing_bucket() -> None:
    error = FileNotFoundError(f"Object at location NoSuchBucket not found: {STATUS}404 Not Found: ")
    assert not bucket_missing(error)
    assert isinstance(explain(error, "cannot read x", PLACE), StoreRefused)


def test_a_denial_without_words_is_still_one() -> None:
    error = explain(PermissionDeniedError(f"{STATUS}403 Forbidden: "), "cannot read x", PLACE)
    assert isinstance(error, StoreRefused) and "lake" in str(error.remedy)
