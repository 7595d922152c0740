import pytest

from starforge.contract.remotes import strip_credentials


@pytest.mark.parametrize(
    ("remote", "kept"),
    [
        ("https://ann:secret@git.example/a.git", "https://git.example/a.git"),
        ("https://secret@git.example/a.git?token=secret#secret", "https://git.example/a.git"),
        ("https://a@secret@git.example/a.git", "https://git.example/a.git"),
        ("https://ann:secret@[bad/a@b.git?secret", "https://b.git"),
        ("ssh://git:secret@git.example:22/a.git", "ssh://git@git.example:22/a.git"),
        ("git:secret@git.example:a.git", "git@git.example:a.git"),
        ("/srv/git/a.git", "/srv/git/a.git"),
        ("/srv/git:a@b/c.git", "/srv/git:a@b/c.git"),
        ("git@git.example:team/a@b.git", "git@git.example:team/a@b.git"),
        ("git.example:team/a@b.git", "git.example:team/a@b.git"),
        ("https://git.example/team/a@b.git", "https://git.example/team/a@b.git"),
        ("https://[::1]:8443/a.git", "https://[::1]:8443/a.git"),
        ("https://ann:se?secret@git.example/a.git", "https://git.example/a.git"),
        ("https://ann:se#secret@git.example/a.git", "https://git.example/a.git"),
        ("https://ann:se/secret@git.example/a.git", "https://git.example/a.git"),
        ("https://git.example?secret", "https://git.example"),
        (" HTTPS://ann:secret@git.example/a.git\n", "https://git.example/a.git"),
        ("https::https://ann:secret@git.example/a.git", "https::https://git.example/a.git"),
        ("persistent-https::https://secret@git.example/a.git", "persistent-https::https://git.example/a.git"),
        ("codecommit::us-east-1://secret@a", "codecommit::us-east-1://a"),
        ("ext::curl -H secret https://git.example", "ext::"),
        ("ann:se@secret@git.example:a.git", "ann@git.example:a.git"),
        ("ann:secret@[git.example:22]:a.git", "ann@[git.example:22]:a.git"),
        ("ann:se/secret@git.example:a.git", "ann@git.example:a.git"),
        ("ann:secret@git.example/a.git", "ann@git.example/a.git"),
        ("ann:secret@git.example:a://b", "ann@git.example:a://b"),
        ("https:/ann:secret@git.example/a.git", "https@git.example/a.git"),
    ],
)
def test_nothing_of_a_credential_is_left_in_the_address_of_a_remote(remote: str, kept: str) -> None:
    assert strip_credentials(remote) == kept
