// Package upgrade tests upgrades and downgrades: a new binary with old data, and an old binary with new data. In the
// first test, the last release (shared/testing/released) fills a data directory, this version continues with the data,
// and then the last release continues with them again. In the second test, an installation of the last release in an
// emulator of AWS is updated to this version and back, while clients send requests all the time. It contains only
// tests.
//
// The first test builds two products, and is skipped unless GATEWRIGHT_TEST_UPGRADE is set: `make test-upgrade`. The
// second test needs an installation that local/dev/emulators deploys: `make test-update`. The packages that read stored
// data test what a version reports about data in an unknown format (shared/core/store/embedded, local/backup).
//
// Read upgrade_test.go for the first test, update_test.go for the second test, and traffic_test.go for the clients of
// the second test. Both tests use fixture_test.go, setup_test.go, which creates objects, and checks_test.go, which
// checks them. If a version introduces a data format that the last release cannot read, change the end of both tests:
// they must then expect the line that the last release prints.
package upgrade
