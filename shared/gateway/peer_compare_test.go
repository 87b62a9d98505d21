package gateway_test

import (
	"cmp"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/project"
)

// TestTunnelsAnswerAsTheNetworkDoes has the same bytes go to a service by a tunnel and by the
// network, and compares what it and its client saw.
func TestTunnelsAnswerAsTheNetworkDoes(t *testing.T) {
	t.Parallel()
	s := servePlainly(t, exchanges())
	own := regexp.MustCompile(`(?m)^(x-request-id|traceparent|date): .*`)
	problem := regexp.MustCompile(`(?s)[0-9]+ bytes\ncontent-length: [0-9]+\n(content-type: application/problem\+json.*?)body [^\n]*`)
	compare(t, s, s.gatewayTo("http://"+s.address), s.gatewayTo("service://Stock", tunnelTo(t, "http://"+s.address)), func(exchange, text string) string {
		if text = problem.ReplaceAllString(own.ReplaceAllString(text, "$1: *"), "$1"); exchange == "no answer" {
			text = onceSeen(text) // a GET for which a connection had been kept is sent again, and each way keeps its own
		}
		return text
	}, map[string]string{
		"cookies":                       "in HTTP/2 they are one line (RFC 9113, section 8.2.3)",
		"100-continue":                  "HTTP/2 of net/http keeps the expectation to itself, and the agent meets it when it reads the body",
		"100-continue, refused at once": "as above",
		"a body that breaks off":        "a tunnel hears of the end before it has asked the service, or after",
		"chunks that break off":         "as above",
		"odd chunks":                    "as above",
		"half closed":                   "as above: who ends his side has left, as net/http sees it",
		"an answer before the body":     "the network keeps the client's connection only where the body was read",
		"many hints":                    "5 of them are passed on, and then a tunnel takes it for its connection's end",
	})
}

// onceSeen is what was said without the second of two equal requests that the service saw.
func onceSeen(said string) string {
	seen, rest, _ := strings.Cut(said, clientSaw)
	if first, second, twice := strings.Cut(strings.TrimPrefix(seen, serviceSaw), "\nGET "); twice && first == "GET "+second {
		seen = serviceSaw + first
	}
	return seen + clientSaw + rest
}

func TestOnlyEqualRequestsAreOne(t *testing.T) {
	t.Parallel()
	const once = serviceSaw + "GET /x HTTP/1.1\nbody " + clientSaw + "502"
	for said, want := range map[string]string{
		once: once,
		serviceSaw + "GET /x HTTP/1.1\nbody \nGET /x HTTP/1.1\nbody " + clientSaw + "502": once,
		serviceSaw + "GET /x HTTP/1.1\nbody \nGET /y HTTP/1.1\nbody " + clientSaw + "502": "",
		serviceSaw + clientSaw + "502": "",
	} {
		if got := onceSeen(said); got != cmp.Or(want, said) {
			t.Errorf("%q is %q", said, got)
		}
	}
}

// What stands before what each side of an exchange saw.
const serviceSaw, clientSaw = "the service saw\n", "\nthe client saw\n"

// gatewayTo is the address of a gateway that sends all requests to a base.
func (s *plainService) gatewayTo(base string, settings ...setting) string {
	s.Helper()
	var routes []project.Route
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} {
		routes = append(routes, route(method+" /{p}", forward(base)))
	}
	return strings.TrimPrefix(newHouse(s.TB, artifact(routes...), settings...).URL, "http://")
}

// compare plays all exchanges by two ways. Those that differ are played again by themselves and more slowly, since
// parts that are to arrive apart do not on a busy machine. differ says why some may.
func compare(t *testing.T, s *plainService, one, other string, plain func(exchange, text string) string, differ map[string]string) {
	t.Helper()
	names := map[string]bool{}
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	again := make(chan int, len(s.exchanges))
	both := func(try, n int) (string, string) {
		said := func(way, address string) string {
			mark := markOf(way, try, n)
			client := play(t, mark, address, s.exchanges[n])
			return plain(s.exchanges[n].name, strings.ReplaceAll(serviceSaw+s.seen(mark)+clientSaw+client, mark, "*"))
		}
		return said("one", one), said("other", other)
	}
	for n, e := range s.exchanges {
		if names[e.name] {
			t.Fatalf("two are called %s", e.name)
		}
		names[e.name] = true
		if differ[e.name] != "" {
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if a, b := both(0, n); a != b {
				again <- n
			}
		})
	}
	all.Wait()
	close(again)
	wrong := 0
	for n := range again {
		if wrong == 5 {
			t.Fatal("so it goes on")
		}
		var a, b string
		for try := 1; try <= 3; try++ {
			if a, b = both(try, n); a == b {
				break
			}
		}
		if a != b {
			wrong++
			t.Errorf("%s: %s\nand the other way: %s", s.exchanges[n].name, a, b)
		}
	}
	for name := range differ {
		if !names[name] {
			t.Errorf("%s is no exchange", name)
		}
	}
}
