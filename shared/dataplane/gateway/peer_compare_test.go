package gateway_test

import (
	"cmp"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestTunnelResponsesMatchTheNetwork sends the same bytes to a service through a tunnel and over the network. It
// compares the transcripts of what the service and the client have received, without the values that each request
// generates, and without the texts of problems.
func TestTunnelResponsesMatchTheNetwork(t *testing.T) {
	t.Parallel()
	s := newRecordingService(t, exchanges())
	generatedFields := regexp.MustCompile(`(?m)^(x-request-id|traceparent|date): .*`)
	problem := regexp.MustCompile(
		`(?s)[0-9]+ bytes\ncontent-length: [0-9]+\n(content-type: application/problem\+json.*?)body [^\n]*`)
	compare(t, s, s.gatewayTo("http://"+s.address), s.gatewayTo("service://Stock", tunnelTo(t, "http://"+s.address)),
		func(exchange, text string) string {
			text = problem.ReplaceAllString(generatedFields.ReplaceAllString(text, "$1: *"), "$1")
			if exchange == "no response" {
				// A GET on a reused connection can be sent twice, and the two gateways reuse connections differently.
				text = removeRepeated(text)
			}
			return text
		}, map[string]string{
			"cookies": "in HTTP/2 they become a single field (RFC 9113, section 8.2.3)",
			"100-continue": "net/http's HTTP/2 server removes the Expect field, and sends the 100 when the agent " +
				"reads the body",
			"100-continue, refused":       "as above",
			"a body that breaks off":      "a tunnel can notice the end before or after it has sent the request",
			"chunks that break off":       "as above",
			"invalid chunks of a request": "as above",
			"a client that half-closes":   "as above: net/http treats a client that half-closes as disconnected",
			"a response before the body":  "without a tunnel, the client's connection stays only if the body was read",
			"many hints":                  "a tunnel forwards five, and treats more as the end of its connection",
		})
}

// removeRepeated removes the second of two equal requests at the service from a transcript.
func removeRepeated(transcript string) string {
	received, rest, _ := strings.Cut(transcript, clientHeading)
	first, second, twice := strings.Cut(strings.TrimPrefix(received, serviceHeading), "\nGET ")
	if twice && first == "GET "+second {
		received = serviceHeading + first
	}
	return received + clientHeading + rest
}

// TestOnlyEqualRequestsAreMerged checks that removeRepeated removes a second request only if it is equal to the first.
func TestOnlyEqualRequestsAreMerged(t *testing.T) {
	t.Parallel()
	const once = serviceHeading + "GET /x HTTP/1.1\nbody " + clientHeading + "502"
	for transcript, want := range map[string]string{ // "" for an unchanged transcript
		once: once,
		serviceHeading + "GET /x HTTP/1.1\nbody \nGET /x HTTP/1.1\nbody " + clientHeading + "502": once,
		serviceHeading + "GET /x HTTP/1.1\nbody \nGET /y HTTP/1.1\nbody " + clientHeading + "502": "",
		serviceHeading + clientHeading + "502":                                                    "",
	} {
		if got := removeRepeated(transcript); got != cmp.Or(want, transcript) {
			t.Errorf("removeRepeated(%q) = %q, want %q", transcript, got, cmp.Or(want, transcript))
		}
	}
}

// The headings of the two parts of a transcript.
const serviceHeading, clientHeading = "the service received\n", "\nthe client received\n"

// gatewayTo starts a gateway that forwards all requests to base, and returns its address.
func (s *recordingService) gatewayTo(base string, settings ...setting) string {
	s.Helper()
	var routes []project.Route
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} {
		routes = append(routes, route(method+" /{p}", forward(base)))
	}
	return strings.TrimPrefix(newFixture(s.TB, artifact(routes...), settings...).URL, "http://")
}

// compare plays all exchanges at two addresses and compares the transcripts. It repeats exchanges that
// differ, one at a time and more slowly, because on a busy machine the parts of a message can arrive
// together. expectedDifferences has the names of exchanges that are not compared, with the reasons.
func compare(
	t *testing.T, s *recordingService, first, second string, normalize func(exchange, text string) string,
	expectedDifferences map[string]string,
) {
	t.Helper()
	names := map[string]bool{}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	retries := make(chan int, len(s.exchanges))
	playBoth := func(try, n int) (string, string) {
		transcript := func(path, address string) string {
			mark := newMark(path, try, n)
			client := play(t, mark, address, s.exchanges[n])
			text := strings.ReplaceAll(serviceHeading+s.received(mark)+clientHeading+client, mark, "*")
			return normalize(s.exchanges[n].name, text)
		}
		return transcript("one", first), transcript("other", second)
	}
	for n, e := range s.exchanges {
		if names[e.name] {
			t.Fatalf("two exchanges are named %s, want different names", e.name)
		}
		names[e.name] = true
		if expectedDifferences[e.name] != "" {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if a, b := playBoth(0, n); a != b {
				retries <- n
			}
		})
	}
	wg.Wait()
	close(retries)
	failures := 0
	for n := range retries {
		if failures == 5 {
			t.Fatal("5 exchanges differ, want none; the remaining ones are not compared")
		}
		var a, b string
		for try := 1; try <= 3; try++ {
			if a, b = playBoth(try, n); a == b {
				break
			}
		}
		if a != b {
			failures++
			t.Errorf("%s: first = %s\nsecond = %s\nwant equal transcripts", s.exchanges[n].name, a, b)
		}
	}
	for name := range expectedDifferences {
		if !names[name] {
			t.Errorf("%s in expectedDifferences is no exchange, want one of this name", name)
		}
	}
}
