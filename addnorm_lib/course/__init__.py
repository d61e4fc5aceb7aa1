"""What every chapter uses: claims that are checked against a measurement, exercises that are checked on the spot."""

from addnorm_lib.course.assertions import claim, claims

__all__ = ["claim", "claims"]
