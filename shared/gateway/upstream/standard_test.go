package upstream

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// overStandard reports whether a test runs with Options.Standard.
func overStandard(t testing.TB) bool {
	t.Helper()
	return strings.HasPrefix(t.Name(), "TestStandard/")
}

// notStandard are the tests of a Client that do not run with Options.Standard, each with the reason. docs/security.md lists the
// differences that callers notice, "If a parser is at fault".
var notStandard = map[string]string{
	"TestAnUpstreamHasToTakeTheRequest":                           "requests with a body go by http.Transport in any case",
	"TestARequestAndAnAnswerMayTakeLongerThanTheWait":             "requests with a body go by http.Transport in any case",
	"TestADeadConnectionIsNoticedBeforeItIsUsed":                  "http.Transport may use a connection that the upstream has just closed, and does not repeat a DELETE",
	"TestAtMostTwoStaleConnectionsAreTried":                       "http.Transport tries every idle connection before it dials",
	"TestBytesThatNobodyAskedForAreNoAnswer":                      "http.Transport may take an unsolicited answer for the answer to a request that begins at that moment",
	"TestNothingInsideTLSBecomesTheNextAnswer":                    "the same by TLS",
	"TestOnlyWhatCanNotWaitGoesTheShortWay":                       "it is about direct.go",
	"TestTLSServersOfHTTP1AreReachedDirectlyAfterTheFirstRequest": "it is about direct.go",
	"TestATLSServerMayChangeItsProtocol":                          "it is about direct.go",
}

// twoAgents returns what an upstream gets if a request has two User-Agent fields: http.Transport sends only the first.
func twoAgents(t *testing.T) string {
	t.Helper()
	if overStandard(t) {
		return `["a"]`
	}
	return `["a" "b"]`
}

// TestStandard runs the tests of a Client with Options.Standard: http.Transport sends every request.
func TestStandard(t *testing.T) {
	tests := map[string]func(*testing.T){
		"TestABodyMayTakeLongerThanItsBeginning":         TestABodyMayTakeLongerThanItsBeginning,
		"TestABodyThatIsLeftEndsItsConnection":           TestABodyThatIsLeftEndsItsConnection,
		"TestAConnectionIsUsedAgain":                     TestAConnectionIsUsedAgain,
		"TestAHeadIsBoundedToTheByte":                    TestAHeadIsBoundedToTheByte,
		"TestALengthIsOneNumber":                         TestALengthIsOneNumber,
		"TestARedirectsBodyIsNotWaitedFor":               TestARedirectsBodyIsNotWaitedFor,
		"TestARequestIsNotRepeatedOnceItsAnswerHasBegun": TestARequestIsNotRepeatedOnceItsAnswerHasBegun,
		"TestAResponseHasToBeginInTheTimeOfItsRoute":     TestAResponseHasToBeginInTheTimeOfItsRoute,
		"TestAResponseThatDoesNotBeginTimesOut":          TestAResponseThatDoesNotBeginTimesOut,
		"TestARouteMayWaitLongerThanItsInstallation":     TestARouteMayWaitLongerThanItsInstallation,
		"TestASwitchAnswersWhatWasAsked":                 TestASwitchAnswersWhatWasAsked,
		"TestAccountsShareNoConnection":                  TestAccountsShareNoConnection,
		"TestEveryResponseBelongsToItsRequest":           TestEveryResponseBelongsToItsRequest,
		"TestEveryStatusOfHTTPPasses":                    TestEveryStatusOfHTTPPasses,
		"TestFieldsThatWouldBreakTheFramingAreNotSent":   TestFieldsThatWouldBreakTheFramingAreNotSent,
		"TestHintsOfHTTP2AreTold":                        TestHintsOfHTTP2AreTold,
		"TestIdleConnectionsAreBounded":                  TestIdleConnectionsAreBounded,
		"TestIdleConnectionsEnd":                         TestIdleConnectionsEnd,
		"TestInformationalResponsesAreBounded":           TestInformationalResponsesAreBounded,
		"TestListsOfFieldsAreThoseOfTheirOwnHead":        TestListsOfFieldsAreThoseOfTheirOwnHead,
		"TestNoMoreIdleConnectionsAreClosedThanHaveTo":   TestNoMoreIdleConnectionsAreClosedThanHaveTo,
		"TestOddStatusesAreRefused":                      TestOddStatusesAreRefused,
		"TestOnlySafeMethodsAreRepeated":                 TestOnlySafeMethodsAreRepeated,
		"TestPathsAreSentEscaped":                        TestPathsAreSentEscaped,
		"TestRedirectsOnTheWire":                         TestRedirectsOnTheWire,
		"TestRedirectsWaitAsTheirRouteDoes":              TestRedirectsWaitAsTheirRouteDoes,
		"TestTheUserAgentIsTheCallers":                   TestTheUserAgentIsTheCallers,
		"TestTransportsOfAccountsAreForgotten":           TestTransportsOfAccountsAreForgotten,
		"TestWhatHasNoBodyMayHaveALength":                TestWhatHasNoBodyMayHaveALength,
	}
	for name, test := range tests {
		t.Run(name, test)
	}
	for _, name := range testsOfClients(t) {
		if _, differs := notStandard[name]; tests[name] == nil && !differs {
			t.Errorf("%s does not run with Options.Standard: add it to TestStandard, or to notStandard with the difference", name)
		}
	}
}

// testsOfClients returns the names of this package's tests that make a Client by newClient.
func testsOfClients(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	begins := regexp.MustCompile(`^Test\w+`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for function := range strings.SplitSeq(string(text), "\nfunc ") {
			if name := begins.FindString(function); name != "" && strings.Contains(function, "newClient(") {
				names = append(names, name)
			}
		}
	}
	if len(names) < 20 {
		t.Fatalf("testsOfClients() = %d tests, want 20 or more", len(names))
	}
	return names
}

// TestStandardIsNeverDirect: with Options.Standard direct.go makes no connection for any request.
func TestStandardIsNeverDirect(t *testing.T) {
	c := New(Options{Standard: true, Guard: Guard{AllowPrivate: true}})
	t.Cleanup(c.Close)
	if c.isDirect(request(t, t.Context(), "GET", "http://up.test/")) {
		t.Error("isDirect(GET) with Options.Standard = true, want false")
	}
}
