package listen_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// isStandardRun reports whether a test runs with StandardHTTP.
func isStandardRun(t *testing.T) bool {
	t.Helper()
	return strings.HasPrefix(t.Name(), "TestStandard/")
}

// The following variables have the differences to the default that clients see
// with StandardHTTP. docs/security.md lists them in "If a parser is at fault".

// standardStatus has the status of refusals that differ with StandardHTTP, because net/http checks the encoding first.
var standardStatus = map[string]int{
	"two encodings":               http.StatusNotImplemented,
	"length and unknown encoding": http.StatusNotImplemented,
}

// standardChunks has malformed bodies that net/http accepts, or for whose rest net/http waits: trailers with a bare
// line feed or with white space before the colon, extensions and trailers of more than 4,000 bytes, and sizes of 16
// digits. No bytes after such a body can be served as a request, because the response is the last on its connection.
var standardChunks = []string{
	"0\r\nA: b\n\n", "0\r\nA : b\r\n\r\n", "3;" + strings.Repeat("x", 4000) + "\r\nabc\r\n0\r\n\r\n",
	"0\r\nA: " + strings.Repeat("x", 4000) + "\r\n\r\n", "1000000000000000\r\n",
}

// chunkedIsLast reports whether the response to a request with a chunked body is the last on its connection.
func chunkedIsLast(t *testing.T, request string) bool {
	t.Helper()
	return isStandardRun(t) && strings.Contains(request, "chunked")
}

// notStandard has the tests that do not run with StandardHTTP, with the reasons.
var notStandard = map[string]string{
	"TestLimitsPageDocumentsLargeHeads":        "reads a page of the documentation, and serves no request",
	"TestDefaultConnectionsReserveDescriptors": "counts descriptors, and serves no request",
	"TestClientAddrIsNotOfAProxy":              "calls only clientAddr, and serves no request",
	"TestListenErrorSaysWhatToDo":              "starts no server",
	"TestProxyHeaderSetsTheClientAddress":      proxyHeaderReason + "; TestConnectionsAreLimitedPerProxiedClient runs",
	"TestParkedConnectionTimesOut":             "no connection is parked; TestIdleConnectionTimesOut runs",
	"TestParkedConnectionIsReleasedWhenClosed": "no connection is parked",
	"TestConnectionsBeforeServe":               "opens no connection",
	"TestConnectionsParkWithoutDescriptors":    "no connection is parked",
	"TestParkedConnectionsCloseOnShutdown":     "no connection is parked; TestShutdownWithClientsThatDoNotRead runs",
	"TestParkedConnectionsHaveNoGoroutine":     "net/http keeps idle connections, with a goroutine and 20 KB each",
	"TestNoSecondGoAway":                       "is a test of HTTP/2",
	"TestGoAwayIsWrittenBetweenFrames":         "is a test of HTTP/2",
	"TestLineEndsDuringAResponseAreSkipped": "net/http refuses line ends that arrive during a response with a 400, " +
		"unless they follow a POST",
	"TestPortInUseError":                   "starts no server",
	"TestProxyWithoutHeaderIsClosed":       proxyHeaderReason,
	"TestConnectionResumesWhileItIsParked": "no connection is parked",
	"TestServeAfterShutdownServesNothing":  "opens no connection",
	"TestTLSSlowClientIsServed":            "responses are written by the same code; TestSlowClientIsNotStalled runs",
}

// proxyHeaderReason is the reason why some tests of the PROXY header do not run with StandardHTTP.
const proxyHeaderReason = "the PROXY header is read before anything else, by the same code"

// TestStandard runs the tests of HTTP/1.1 again with StandardHTTP: then net/http reads requests
// itself. Tests of HTTP/2 are not repeated, because net/http always reads the frames of HTTP/2.
func TestStandard(t *testing.T) {
	tests := map[string]func(*testing.T){
		"TestListenersShareABudget":                            TestListenersShareABudget,
		"TestLargeHeadsShareABudget":                           TestLargeHeadsShareABudget,
		"TestRefusedConnectionsAreLimited":                     TestRefusedConnectionsAreLimited,
		"TestSlowestBodyIsEvicted":                             TestSlowestBodyIsEvicted,
		"TestSlowBufferedBodyIsEnded":                          TestSlowBufferedBodyIsEnded,
		"TestRefusalLogIsRateLimited":                          TestRefusalLogIsRateLimited,
		"TestIPv6NetworkCountsAsOneAddress":                    TestIPv6NetworkCountsAsOneAddress,
		"TestTunnelReceivesEveryByte":                          TestTunnelReceivesEveryByte,
		"TestHandlerResponseIsUnchanged":                       TestHandlerResponseIsUnchanged,
		"TestResponseAfterAnnouncementClosesTheConnection":     TestResponseAfterAnnouncementClosesTheConnection,
		"TestConnectionServesAnotherRequestAfterAnnouncement":  TestConnectionServesAnotherRequestAfterAnnouncement,
		"TestResponsesAreNotDelayed":                           TestResponsesAreNotDelayed,
		"TestContinueIsSentWhenTheHandlerReads":                TestContinueIsSentWhenTheHandlerReads,
		"TestStalledBodyTimesOut":                              TestStalledBodyTimesOut,
		"TestTCPHealthCheckIsNotLogged":                        TestTCPHealthCheckIsNotLogged,
		"TestShutdownDoesNotWaitForDisconnectedClients":        TestShutdownDoesNotWaitForDisconnectedClients,
		"TestClientDisconnectIsDetected":                       TestClientDisconnectIsDetected,
		"TestNewConnectionIsServedDuringShutdown":              TestNewConnectionIsServedDuringShutdown,
		"TestIdleConnectionClosesDuringShutdown":               TestIdleConnectionClosesDuringShutdown,
		"TestConnectionsAreCountedOnce":                        TestConnectionsAreCountedOnce,
		"TestTotalConnectionsAreLimited":                       TestTotalConnectionsAreLimited,
		"TestConnectionsAreLimitedPerProxiedClient":            TestConnectionsAreLimitedPerProxiedClient,
		"TestConnectionsPerAddressAreLimited":                  TestConnectionsPerAddressAreLimited,
		"TestFullDuplexHandlerKeepsReading":                    TestFullDuplexHandlerKeepsReading,
		"TestEachRefusalIsLogged":                              TestEachRefusalIsLogged,
		"TestUnannouncedShutdownIsNotDelayed":                  TestUnannouncedShutdownIsNotDelayed,
		"TestStalledHandshakeTimesOut":                         TestStalledHandshakeTimesOut,
		"TestHeadAtTheLimitIsAccepted":                         TestHeadAtTheLimitIsAccepted,
		"TestShutdownWaitsForStartedHeads":                     TestShutdownWaitsForStartedHeads,
		"TestIncompleteHeadTimesOut":                           TestIncompleteHeadTimesOut,
		"TestProxyHeaderRequiresTheSetting":                    TestProxyHeaderRequiresTheSetting,
		"TestIdleConnectionTimesOut":                           TestIdleConnectionTimesOut,
		"TestMalformedChunksCloseTheConnection":                TestMalformedChunksCloseTheConnection,
		"TestOtherProtocolsCloseAfterTheHandshake":             TestOtherProtocolsCloseAfterTheHandshake,
		"TestPipelinedRequestsAreServedInOrder":                TestPipelinedRequestsAreServedInOrder,
		"TestPlainRequestToTLSIsRefused":                       TestPlainRequestToTLSIsRefused,
		"TestQuietStreamsStayOpen":                             TestQuietStreamsStayOpen,
		"TestStalledReaderTimeoutIsPrecise":                    TestStalledReaderTimeoutIsPrecise,
		"TestStalledReaderTimesOut":                            TestStalledReaderTimesOut,
		"TestSendingClientReceivesTheRefusal":                  TestSendingClientReceivesTheRefusal,
		"TestConnectionIsReusableAfterRefusalWithCompleteBody": TestConnectionIsReusableAfterRefusalWithCompleteBody,
		"TestRefusalDoesNotWaitForTheBody":                     TestRefusalDoesNotWaitForTheBody,
		"TestRefusedClientThatDoesNotReadIsClosed":             TestRefusedClientThatDoesNotReadIsClosed,
		"TestRefusedHeadGetsAProblemAndCloses":                 TestRefusedHeadGetsAProblemAndCloses,
		"TestRequestDuringShutdownIsServed":                    TestRequestDuringShutdownIsServed,
		"TestSecondRequestIsCheckedLikeTheFirst":               TestSecondRequestIsCheckedLikeTheFirst,
		"TestShutdownWithClientsThatDoNotRead":                 TestShutdownWithClientsThatDoNotRead,
		"TestHeadLimitsComeFromSettings":                       TestHeadLimitsComeFromSettings,
		"TestSlowClientIsNotStalled":                           TestSlowClientIsNotStalled,
		"TestSlowProxyIsClosed":                                TestSlowProxyIsClosed,
		"TestProxyHeaderOfUntrustedClientIsRefused":            TestProxyHeaderOfUntrustedClientIsRefused,
		"TestTLSStartsAfterTheProxyHeader":                     TestTLSStartsAfterTheProxyHeader,
		"TestTLSClientThatDoesNotReadIsClosed":                 TestTLSClientThatDoesNotReadIsClosed,
		"TestTLSMatchesPlainHTTP":                              TestTLSMatchesPlainHTTP,
		"TestTLSLongResponsesAndBodies":                        TestTLSLongResponsesAndBodies,
		"TestTLSTooManyConnectionsAreClosed":                   TestTLSTooManyConnectionsAreClosed,
		"TestDialLocal":                                        TestDialLocal,
		"TestOrdinaryRequestsAreServed":                        TestOrdinaryRequestsAreServed,
		"TestWaitingConnectionsUseLittleMemory":                TestWaitingConnectionsUseLittleMemory,
	}
	for name, test := range tests {
		t.Run(name, test)
	}
	for _, name := range testsOfHTTP1(t) {
		if _, skipped := notStandard[name]; tests[name] == nil && !skipped {
			t.Errorf("%s does not run with StandardHTTP, want it in TestStandard, or in notStandard with the reason", name)
		}
	}
}

// testsOfHTTP1 returns the names of this package's tests, except those that begin with TestStandard or TestHTTP2.
func testsOfHTTP1(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	testName := regexp.MustCompile(`(?m)^func (Test\w+)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testName.FindAllStringSubmatch(string(text), -1) {
			if name := found[1]; !strings.HasPrefix(name, "TestStandard") && !strings.HasPrefix(name, "TestHTTP2") {
				names = append(names, name)
			}
		}
	}
	if len(names) < 40 {
		t.Fatalf("testsOfHTTP1() = %d tests, want 40 or more", len(names))
	}
	return names
}
