// Package server has the tests of one server, as `gatewright serve` is started on a machine with a
// domain: by HTTPS, with certificates that an authority gives by ACME or that lie in files.
//
// TestScenarioSuite has the scenario suite (package scenario) go through such a server, where
// GATEWRIGHT_TEST_SERVER is set: `make test-server`. It is installed as users install it: the root of the image, and the
// archive with its unit, in namespaces of their own (package containertest).
package server
