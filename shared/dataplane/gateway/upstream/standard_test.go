package upstream

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// isStandardRun reports whether a test runs with Options.Standard.
func isStandardRun(t testing.TB) bool {
	t.Helper()
	return strings.HasPrefix(t.Name(), "TestStandard/")
}

// notStandard are the tests of a Client that do not run with Options.Standard, each with the reason.
// The section "If a parser is at fault" of docs/security.md lists the differences that callers notice.
var notStandard = map[string]string{
	"TestUpstreamThatStopsReadingTimesOut":           "requests with a body always go through http.Transport",
	"TestTimeoutDoesNotLimitRequestOrResponseBodies": "requests with a body always go through http.Transport",
	"TestClosedConnectionIsDetectedBeforeUse": "http.Transport may use a connection that the upstream has just " +
		"closed, and does not repeat a DELETE",
	"TestAtMostTwoStaleConnectionsAreTried": "http.Transport tries every idle connection before it dials",
	"TestUnsolicitedBytesAreNotAResponse": "http.Transport may take an unsolicited response for the response to " +
		"a request that begins at that moment",
	"TestBufferedTLSBytesAreNotTheNextResponse": "the same applies over TLS",
	"TestOnlyBodilessRequestsAreDirect":         "it is about direct.go",
	"TestHTTP1OverTLSIsDirectAfterFirstRequest": "it is about direct.go",
	"TestTLSServerCanChangeItsProtocol":         "it is about direct.go",
	"TestIdleConnectionsAreClosed":              "it is about the pool of direct.go",
}

// twoAgents returns what an upstream receives of the two User-Agent fields "a" and "b": http.Transport sends only the
// first.
func twoAgents(t *testing.T) string {
	t.Helper()
	if isStandardRun(t) {
		return `["a"]`
	}
	return `["a" "b"]`
}

// TestStandard runs the tests of a Client with Options.Standard: http.Transport sends every request.
func TestStandard(t *testing.T) {
	tests := map[string]func(*testing.T){
		"TestBodyCanExceedTheResponseTimeout":           TestBodyCanExceedTheResponseTimeout,
		"TestUnreadBodyClosesItsConnection":             TestUnreadBodyClosesItsConnection,
		"TestConnectionIsReused":                        TestConnectionIsReused,
		"TestResponseHeadLimitIsExact":                  TestResponseHeadLimitIsExact,
		"TestContentLengthMustBeOneNumber":              TestContentLengthMustBeOneNumber,
		"TestRedirectBodyIsNotAwaited":                  TestRedirectBodyIsNotAwaited,
		"TestRequestIsNotRetriedAfterResponseBytes":     TestRequestIsNotRetriedAfterResponseBytes,
		"TestRouteTimeoutLimitsTheStartOfTheResponse":   TestRouteTimeoutLimitsTheStartOfTheResponse,
		"TestMissingResponseTimesOut":                   TestMissingResponseTimesOut,
		"TestRouteTimeoutCanExceedTheDefault":           TestRouteTimeoutCanExceedTheDefault,
		"TestSwitchToRequestedProtocolIsAccepted":       TestSwitchToRequestedProtocolIsAccepted,
		"TestAccountsDoNotShareConnections":             TestAccountsDoNotShareConnections,
		"TestResponsesMatchRequestsOnSharedConnections": TestResponsesMatchRequestsOnSharedConnections,
		"TestEveryStatusOfHTTPPasses":                   TestEveryStatusOfHTTPPasses,
		"TestInvalidRequestsAreNotSent":                 TestInvalidRequestsAreNotSent,
		"TestHTTP2EarlyHintsAreForwarded":               TestHTTP2EarlyHintsAreForwarded,
		"TestIdleConnectionsAreBounded":                 TestIdleConnectionsAreBounded,
		"TestInformationalResponsesAreBounded":          TestInformationalResponsesAreBounded,
		"TestConnectionFieldAppliesToItsOwnHead":        TestConnectionFieldAppliesToItsOwnHead,
		"TestOnlyExcessIdleConnectionsAreClosed":        TestOnlyExcessIdleConnectionsAreClosed,
		"TestInvalidStatusesAreRefused":                 TestInvalidStatusesAreRefused,
		"TestOnlySafeMethodsAreRetried":                 TestOnlySafeMethodsAreRetried,
		"TestPathsAreSentEscaped":                       TestPathsAreSentEscaped,
		"TestRedirectsOverBothTransports":               TestRedirectsOverBothTransports,
		"TestRedirectsHaveTheRouteTimeout":              TestRedirectsHaveTheRouteTimeout,
		"TestUserAgentIsForwarded":                      TestUserAgentIsForwarded,
		"TestLeastRecentlyUsedTransportIsRemoved":       TestLeastRecentlyUsedTransportIsRemoved,
		"TestBodilessResponsesMayHaveAContentLength":    TestBodilessResponsesMayHaveAContentLength,
	}
	for name, test := range tests {
		t.Run(name, test)
	}
	for _, name := range testsOfClients(t) {
		if _, skipped := notStandard[name]; tests[name] == nil && !skipped {
			t.Errorf("%s does not run with Options.Standard, want it in TestStandard, or in notStandard with the difference",
				name)
		}
	}
}

// testsOfClients returns the names of this package's tests that create a Client with newClient.
func testsOfClients(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	testName := regexp.MustCompile(`^Test\w+`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for function := range strings.SplitSeq(string(text), "\nfunc ") {
			if name := testName.FindString(function); name != "" && strings.Contains(function, "newClient(") {
				names = append(names, name)
			}
		}
	}
	if len(names) < 20 {
		t.Fatalf("testsOfClients() = %d tests, want 20 or more", len(names))
	}
	return names
}

// TestStandardIsNeverDirect checks that with Options.Standard, even a request that direct.go supports is not sent
// directly.
func TestStandardIsNeverDirect(t *testing.T) {
	c := New(Options{Standard: true, Guard: Guard{AllowPrivate: true}})
	t.Cleanup(c.Close)
	if c.isDirect(request(t, t.Context(), "GET", "http://up.test/")) {
		t.Error("isDirect(GET) with Options.Standard = true, want false")
	}
}
