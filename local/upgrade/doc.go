// Package upgrade has the test of an upgrade, which is the new binary over the old data, and of the way back: the last
// release, of which packaging/released has the commit, fills a data directory, this version goes on with it, and then
// the last release again. It holds no code but tests.
//
// It builds two products and is skipped unless GATEWRIGHT_TEST_UPGRADE is set: `make test-upgrade`. What a version says
// of data whose form it does not know is tested where that is decided (shared/store/embedded, local/backup).
//
// Read upgrade_test.go for the story, world_test.go for the data directory that it is about, made_test.go and
// found_test.go for what is made in it and looked for, released_test.go for the last release. A version that raises a form of the data, so that the last release cannot read them any more, changes the
// end of the story to the line that the last release says then.
package upgrade
