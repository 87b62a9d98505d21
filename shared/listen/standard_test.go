package listen_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// overStandard reports whether a test runs with StandardHTTP.
func overStandard(t *testing.T) bool {
	t.Helper()
	return strings.HasPrefix(t.Name(), "TestStandard/")
}

// Here and in notStandard are the differences that clients notice with StandardHTTP. docs/security.md lists them, "If a parser is at fault".

// standardStatus are refusals whose status differs: net/http refuses the encoding first.
var standardStatus = map[string]int{
	"two encodings":               http.StatusNotImplemented,
	"length and unknown encoding": http.StatusNotImplemented,
}

// standardChunks are malformed bodies that net/http accepts, or whose rest it waits for: trailers with a bare line feed or
// with white space before the colon, extensions and trailers of more than 4,000 bytes, and sizes of 16 digits. However
// such a body is read, no bytes after it become a request: the answer is the last on its connection.
var standardChunks = []string{
	"0\r\nA: b\n\n", "0\r\nA : b\r\n\r\n", "3;" + strings.Repeat("x", 4000) + "\r\nabc\r\n0\r\n\r\n",
	"0\r\nA: " + strings.Repeat("x", 4000) + "\r\n\r\n", "1000000000000000\r\n",
}

// chunkedIsLast reports whether the answer to a request with a chunked body is the last on its connection.
func chunkedIsLast(t *testing.T, request string) bool {
	t.Helper()
	return overStandard(t) && strings.Contains(request, "chunked")
}

// notStandard are the tests that do not run with StandardHTTP, each with the reason.
var notStandard = map[string]string{
	"TestLimitsPageHasLargeHeads":                   "reads a page of the documentation, and serves no request",
	"TestDescriptorsAreLeftToTheProcess":            "counts descriptors, and serves no request",
	"TestBodiesCountForTheClientAndForNoBalancer":   "asks a function for names, and serves no request",
	"TestAddressThatCannotBeListenedOnSaysWhatToDo": "no server is made",
	"TestClientOfAProxyIsWhoItSays":                 "the same; TestConnectionsOfAProxysClientAreBounded runs",
	"TestConnectionThatRestsEndsInItsTime":          "no connection rests; TestIdleConnectionEnds runs",
	"TestConnectionThatRestsIsForgottenAsItEnds":    "no connection rests",
	"TestConnectionsAreCountedBeforeAnybodyServes":  "no connection is read",
	"TestConnectionsRestWhileNoDescriptorIsLeft":    "no connection rests",
	"TestConnectionsThatRestEndWithTheServer":       "no connection rests; TestServerEndsBesideClientsThatTakeNothing runs",
	"TestConnectionsThatRestHaveNoGoroutine":        "net/http keeps idle connections, with a goroutine and 20 KB each",
	"TestGoAwayOfNetHTTPIsTheLast":                  "it is about HTTP/2",
	"TestGoAwayStandsBetweenFrames":                 "it is about HTTP/2",
	"TestLineEndsWhileARequestIsAnsweredAreLeftOut": "net/http refuses line ends before a request line, unless they follow a POST: a 400",
	"TestPortInUseIsOneClearLine":                   "no server is made",
	"TestProxyWithoutAHeaderIsClosed":               "the header of the PROXY protocol is read before anything else, by the same code",
	"TestRestingConnectionsWakeWhileTheyFallAsleep": "no connection rests",
	"TestServerThatHasEndedServesNothing":           "no connection is made",
	"TestTLSSlowClientIsServed":                     "answers are written by the same code; TestSlowIsNotStalled runs",
}

// TestStandard runs the tests of what clients see with StandardHTTP: net/http reads requests itself. Those of HTTP/2 are not among
// them: net/http reads its frames in any case.
func TestStandard(t *testing.T) {
	tests := map[string]func(*testing.T){
		"TestListenersOfAProcessShareItsDescriptors":               TestListenersOfAProcessShareItsDescriptors,
		"TestLargeHeadsHaveABoundTogether":                         TestLargeHeadsHaveABoundTogether,
		"TestRefusedConnectionsShareDescriptors":                   TestRefusedConnectionsShareDescriptors,
		"TestTheSlowestBodyMakesRoom":                              TestTheSlowestBodyMakesRoom,
		"TestABufferedBodyThatIsTooSlowEnds":                       TestABufferedBodyThatIsTooSlowEnds,
		"TestAFloodOfRefusalsFillsNoLog":                           TestAFloodOfRefusalsFillsNoLog,
		"TestANetworkOfIPv6IsOneAddress":                           TestANetworkOfIPv6IsOneAddress,
		"TestATunnelGetsEveryByte":                                 TestATunnelGetsEveryByte,
		"TestAnswerOfAHandlerIsNeverTouched":                       TestAnswerOfAHandlerIsNeverTouched,
		"TestAnswerThatBeginsAfterLeaveIsTheLast":                  TestAnswerThatBeginsAfterLeaveIsTheLast,
		"TestAnswerThatOutlivesTheAnnouncementIsFollowedByAnother": TestAnswerThatOutlivesTheAnnouncementIsFollowedByAnother,
		"TestAnswersFollowAtOnce":                                  TestAnswersFollowAtOnce,
		"TestBodyIsAskedForByWhoReadsIt":                           TestBodyIsAskedForByWhoReadsIt,
		"TestBodyThatStallsIsEnded":                                TestBodyThatStallsIsEnded,
		"TestCheckByTCPHasNoLine":                                  TestCheckByTCPHasNoLine,
		"TestClientThatGoesIsNotWaitedFor":                         TestClientThatGoesIsNotWaitedFor,
		"TestClientThatGoesIsNoticed":                              TestClientThatGoesIsNoticed,
		"TestConnectionThatHasJustComeGetsItsFirstAnswer":          TestConnectionThatHasJustComeGetsItsFirstAnswer,
		"TestConnectionThatIsNotUsedIsClosed":                      TestConnectionThatIsNotUsedIsClosed,
		"TestConnectionsAreCountedOnce":                            TestConnectionsAreCountedOnce,
		"TestConnectionsInAllAreBounded":                           TestConnectionsInAllAreBounded,
		"TestConnectionsOfAProxysClientAreBounded":                 TestConnectionsOfAProxysClientAreBounded,
		"TestConnectionsOfAnAddressAreBounded":                     TestConnectionsOfAnAddressAreBounded,
		"TestDuplexHandlerReadsOn":                                 TestDuplexHandlerReadsOn,
		"TestEachRefusalHasALine":                                  TestEachRefusalHasALine,
		"TestEndThatNobodyHasAnnouncedIsNotDelayed":                TestEndThatNobodyHasAnnouncedIsNotDelayed,
		"TestHandshakeThatComesToNoEndIsEnded":                     TestHandshakeThatComesToNoEndIsEnded,
		"TestHeadOfExactlyTheBoundPasses":                          TestHeadOfExactlyTheBoundPasses,
		"TestHeadThatHasBegunIsWaitedFor":                          TestHeadThatHasBegunIsWaitedFor,
		"TestHeadThatIsNeverWholeIsRefused":                        TestHeadThatIsNeverWholeIsRefused,
		"TestHeaderOfAProxyNeedsTheSetting":                        TestHeaderOfAProxyNeedsTheSetting,
		"TestIdleConnectionEnds":                                   TestIdleConnectionEnds,
		"TestMalformedChunksEndTheConnection":                      TestMalformedChunksEndTheConnection,
		"TestOtherProtocolsEndWithTheHandshake":                    TestOtherProtocolsEndWithTheHandshake,
		"TestPipelinedRequestsAreAnsweredInTurn":                   TestPipelinedRequestsAreAnsweredInTurn,
		"TestPlainRequestToTLSIsToldSo":                            TestPlainRequestToTLSIsToldSo,
		"TestQuietStreamsLive":                                     TestQuietStreamsLive,
		"TestReaderThatStallsHasItsTimeAndLittleMore":              TestReaderThatStallsHasItsTimeAndLittleMore,
		"TestReaderThatStallsIsEnded":                              TestReaderThatStallsIsEnded,
		"TestRefusalIsReadByWhoSendsOn":                            TestRefusalIsReadByWhoSendsOn,
		"TestRefusalLeavesAConnectionThatHasTheWholeBody":          TestRefusalLeavesAConnectionThatHasTheWholeBody,
		"TestRefusalWaitsForNoBody":                                TestRefusalWaitsForNoBody,
		"TestRefusedClientThatTakesNoGoodbyeIsGivenUp":             TestRefusedClientThatTakesNoGoodbyeIsGivenUp,
		"TestRefusedHeadGetsAProblemAndTheConnectionEnds":          TestRefusedHeadGetsAProblemAndTheConnectionEnds,
		"TestRequestInTheMomentOfShutdownIsAnswered":               TestRequestInTheMomentOfShutdownIsAnswered,
		"TestSecondRequestIsLookedAtAsTheFirst":                    TestSecondRequestIsLookedAtAsTheFirst,
		"TestServerEndsBesideClientsThatTakeNothing":               TestServerEndsBesideClientsThatTakeNothing,
		"TestSettingsBoundTheHead":                                 TestSettingsBoundTheHead,
		"TestSlowIsNotStalled":                                     TestSlowIsNotStalled,
		"TestSlowProxyIsClosed":                                    TestSlowProxyIsClosed,
		"TestStrangersHeaderIsARequest":                            TestStrangersHeaderIsARequest,
		"TestTLSBeginsBehindTheHeader":                             TestTLSBeginsBehindTheHeader,
		"TestTLSClientThatTakesNothingIsEnded":                     TestTLSClientThatTakesNothingIsEnded,
		"TestTLSIsServedAsPlainHTTPIs":                             TestTLSIsServedAsPlainHTTPIs,
		"TestTLSLongAnswersAndBodiesPass":                          TestTLSLongAnswersAndBodiesPass,
		"TestTLSTooManyConnectionsAreClosed":                       TestTLSTooManyConnectionsAreClosed,
		"TestThisMachineReachesItsOwnListeners":                    TestThisMachineReachesItsOwnListeners,
		"TestUsualRequestsPass":                                    TestUsualRequestsPass,
		"TestWaitingConnectionsCostLittle":                         TestWaitingConnectionsCostLittle,
	}
	for name, test := range tests {
		t.Run(name, test)
	}
	for _, name := range testsOfHTTP1(t) {
		if _, differs := notStandard[name]; tests[name] == nil && !differs {
			t.Errorf("%s does not run with StandardHTTP: add it to TestStandard, or to notStandard with the reason", name)
		}
	}
}

// testsOfHTTP1 returns the names of this package's other tests, except those of HTTP/2.
func testsOfHTTP1(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	begins := regexp.MustCompile(`(?m)^func (Test\w+)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range begins.FindAllStringSubmatch(string(text), -1) {
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
