// Package server tests one server, as operators run it on a machine with a domain (`gatewright-server serve`): over
// HTTPS, with certificates from an ACME authority or from files.
//
// TestScenarioSuite runs the scenario suite (package scenario) against such a server if GATEWRIGHT_TEST_SERVER is set:
// `make test-server`. The suite runs twice, against servers that are installed as users install them: from the
// container image, and from the archive with its systemd unit. The servers run in separate namespaces (package
// containertest).
//
// It does not test features that the local run has too: packages product and scenario test them. It contains only
// tests.
//
// Read harness_test.go first, which starts a server, then server_test.go. handbook_test.go and move_test.go run the
// commands of docs/one-server.md, names_test.go tests which host name serves which site, metrics_test.go tests the
// address for operators, and installed_test.go starts the installed server.
package server
