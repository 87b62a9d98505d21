// Package server has the tests of one server, as `gatewright-server serve` is started on a machine with a
// domain: by HTTPS, with certificates that an authority gives by ACME or that lie in files.
//
// TestScenarioSuite has the scenario suite (package scenario) go through such a server, where
// GATEWRIGHT_TEST_SERVER is set: `make test-server`. It is installed as users install it: the root of the image, and the
// archive with its unit, in namespaces of their own (package containertest).
//
// What it is not: tests of what a laptop has as well, which are those of packages product and scenario. It holds no
// code but tests.
//
// Read harness_test.go first, which starts a server, then server_test.go; handbook_test.go and move_test.go type what
// docs/one-server.md says, names_test.go and watch_test.go have what answers at which name and what operators ask,
// installed_test.go starts what is installed.
package server
