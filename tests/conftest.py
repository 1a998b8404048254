"""What all tests share: no test may depend on how fast the machine is, or on luck."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The same examples every time; an example may take as long as a busy machine makes it take. To look for others:
# pytest --hypothesis-profile=explore
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", settings.get_profile("steady"), derandomize=False)
settings.load_profile("steady")
