// Package upgrade has the tests of an upgrade, which is the new binary over the old data, and of the way back. The last
// release (local/released) fills a data directory, this version goes on with it, and then the last release again; and an
// installation of the last release in an emulator of AWS is updated to this version and back while clients ask it all the
// time. It holds no code but tests.
//
// The first builds two products and is skipped unless GATEWRIGHT_TEST_UPGRADE is set: `make test-upgrade`. The second needs
// what local/emulators prepares and deploys: `make test-update`. What a version says of data whose form it does not know is
// tested where that is decided (shared/store/embedded, local/backup).
//
// Read upgrade_test.go for the one story and update_test.go for the other, traffic_test.go for its clients, world_test.go for
// what both are about, made_test.go and found_test.go for what is made in it and looked for. A version that raises a form of
// the data, so that the last release cannot read them any more, changes the end of the stories to the line that the last
// release says then.
package upgrade
