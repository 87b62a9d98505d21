package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// The variables of listeners for clients (package listen). Functions in Lambda have no
// listener: API Gateway is in front of the functions, and has its own limits.
const (
	VarHeaderBytes           = "GATEWRIGHT_HEADER_BYTES"
	VarHeaderFields          = "GATEWRIGHT_HEADER_FIELDS"
	VarHeaderTimeout         = "GATEWRIGHT_HEADER_TIMEOUT"
	VarBodyTimeout           = "GATEWRIGHT_BODY_TIMEOUT"
	VarSendTimeout           = "GATEWRIGHT_SEND_TIMEOUT"
	VarIdleTimeout           = "GATEWRIGHT_IDLE_TIMEOUT"
	VarConnections           = "GATEWRIGHT_CONNECTIONS"
	VarConnectionsPerAddress = "GATEWRIGHT_CONNECTIONS_PER_ADDRESS"
	VarBufferedBodyBytes     = "GATEWRIGHT_BUFFERED_BODY_BYTES"
	VarTrustedProxies        = "GATEWRIGHT_TRUSTED_PROXIES"
	VarProxyProtocol         = "GATEWRIGHT_PROXY_PROTOCOL"
	// VarStandardHTTP also applies to the gateway's Lambda function, which then sends requests through http.Transport.
	VarStandardHTTP = "GATEWRIGHT_STANDARD_HTTP"
)

// Listener has the limits of a listener for its clients. docs/local-run.md has the table for users.
type Listener struct {
	// HeaderBytes is the maximum size of a request's head: request line, fields and the empty line. A head of exactly
	// that size is accepted. HeaderFields is the maximum number of its fields. Beyond either, the response is a 431,
	// or a 414 if the request line alone is too long.
	HeaderBytes, HeaderFields int
	// HeaderTimeout limits the time from the first byte of a head to its end. On a new connection the time
	// begins with the connection. BodyTimeout is the maximum time without a byte of a body that is being
	// read. After it the response is a 408, or the connection ends if the response has begun. SendTimeout is
	// the maximum time for which a client accepts no byte of a response. IdleTimeout is the maximum time of a
	// connection without a request in progress.
	HeaderTimeout, BodyTimeout, SendTimeout, IdleTimeout time.Duration
	// Connections is the maximum number of concurrent connections of all clients to all listeners of the
	// process. 0 means as many as the file descriptors allow (package listen, Budget). ConnectionsPerAddress
	// is the maximum number of connections from one address (for IPv6: one /64), 0 for no limit. Loopback
	// addresses and trusted proxies have no such limit. A connection beyond a limit receives a 503.
	Connections, ConnectionsPerAddress int
	// BufferedBodyBytes is the maximum memory for all request bodies that the process
	// buffers as a whole (package bodies). The response to a body beyond it is a 503.
	BufferedBodyBytes int
	// TrustedProxies are the addresses of the installation's own proxies, whose
	// connections carry requests of many clients. The gateway trusts the information about
	// clients that these proxies send, and ignores such information from any other peer.
	TrustedProxies []netip.Prefix
	// ProxyProtocol requires each connection from a trusted proxy to begin with a PROXY
	// protocol header, which has the client's address. Other connections have no such header.
	ProxyProtocol bool
	// StandardHTTP makes net/http read the heads and bodies of requests itself, and http.Transport send requests to
	// upstreams. It is for incidents: operators set it if the product's own parsers have a defect.
	StandardHTTP bool
}

// LogStandardHTTP logs that StandardHTTP is set. A process calls it once, at its start.
func LogStandardHTTP(standard bool, log *slog.Logger) {
	if standard {
		log.Warn("the standard library alone reads and sends requests: unset " +
			VarStandardHTTP + " when the incident is over")
	}
}

// DefaultListener returns the limits that apply if nothing is set.
//
// The timeouts of heads and bodies are a third of those of nginx: a client on a bad network pauses for some
// seconds, but not for 20. About a hundred browsers behind one address open 1,000 connections. With 32 MiB for
// bodies the process stays below the 270 MB of docs/one-server.md while clients send as many bodies as they can
// (internal/system/attack).
func DefaultListener() Listener {
	return Listener{
		HeaderBytes: 64 << 10, HeaderFields: 200,
		HeaderTimeout: 20 * time.Second, BodyTimeout: 20 * time.Second,
		SendTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ConnectionsPerAddress: 1000,
		BufferedBodyBytes:     32 << 20,
	}
}

// number describes a variable with a numeric limit of a Listener, and its allowed range.
// duration describes a variable with a timeout; minTimeout and maxTimeout are the range of all timeouts.
type (
	number struct {
		name     string
		target   *int
		min, max int
	}
	duration struct {
		name   string
		target *time.Duration
	}
)

// minBodyBytes is the smallest budget for bodies. One client gets at most a quarter of the budget,
// which is then enough for a body of 1 MiB and its two copies while the buffer grows.
const minBodyBytes = 16 << 20

// minTimeout and maxTimeout are the allowed range of all timeouts of a Listener.
const minTimeout, maxTimeout = 100 * time.Millisecond, 24 * time.Hour

func (l *Listener) numbers() []number {
	return []number{
		{VarHeaderBytes, &l.HeaderBytes, 1 << 10, 1 << 20},
		{VarHeaderFields, &l.HeaderFields, 10, 10_000},
		{VarConnections, &l.Connections, 0, 10_000_000},
		{VarConnectionsPerAddress, &l.ConnectionsPerAddress, 0, 10_000_000},
		{VarBufferedBodyBytes, &l.BufferedBodyBytes, minBodyBytes, 1 << 40},
	}
}

func (l *Listener) durations() []duration {
	return []duration{
		{VarHeaderTimeout, &l.HeaderTimeout},
		{VarBodyTimeout, &l.BodyTimeout},
		{VarSendTimeout, &l.SendTimeout},
		{VarIdleTimeout, &l.IdleTimeout},
	}
}

// ListenerFromEnvironment reads a Listener with getenv. Its error names every invalid variable, but never contains a value.
func ListenerFromEnvironment(getenv func(string) string) (Listener, error) {
	l := DefaultListener()
	var errs []error
	for _, v := range l.numbers() {
		text := getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < v.min || n > v.max {
			errs = append(errs, fmt.Errorf("%s is no number from %d to %d", v.name, v.min, v.max))
			continue
		}
		*v.target = n
	}
	for _, v := range l.durations() {
		text := getenv(v.name)
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < minTimeout || d > maxTimeout {
			errs = append(errs, fmt.Errorf("%s is no time from %s to %s, such as 20s", v.name, shortDuration(minTimeout),
				shortDuration(maxTimeout)))
			continue
		}
		*v.target = d
	}
	l.TrustedProxies = parsePrefixes(getenv(VarTrustedProxies))
	if l.TrustedProxies == nil && strings.TrimSpace(getenv(VarTrustedProxies)) != "" {
		errs = append(errs, fmt.Errorf("%s has one that is no address or prefix such as 10.0.0.0/8, or is everybody's; "+
			"write those of your proxies with spaces between", VarTrustedProxies))
	}
	switch getenv(VarProxyProtocol) {
	case "", "false":
	case "true":
		l.ProxyProtocol = true
		if getenv(VarTrustedProxies) == "" {
			errs = append(errs, fmt.Errorf("%s is true, and no proxy may send its header: name them in %s", VarProxyProtocol,
				VarTrustedProxies))
		}
	default:
		errs = append(errs, fmt.Errorf("%s is neither true nor false", VarProxyProtocol))
	}
	switch getenv(VarStandardHTTP) {
	case "", "false":
	case "true":
		l.StandardHTTP = true
	default:
		errs = append(errs, fmt.Errorf("%s is neither true nor false", VarStandardHTTP))
	}
	return l, errors.Join(errs...)
}

// CheckAddress returns an error unless address, the value of the setting with this name, is an address to listen on:
// host:port with a numeric port. A port name would work too, but could bypass a rule that reserves the port number. The
// error does not contain the value.
func CheckAddress(name, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsFunc(host, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("%s is no address to listen on: write host:port, such as 127.0.0.1:9000", name)
	}
	return nil
}

// parsePrefixes parses addresses and prefixes that are separated by spaces. It returns nil if one of them is invalid.
// A prefix of all addresses is invalid too, because then any client could choose its own address. So
// is an IPv4 address in its IPv6 form (::ffff:10.0.0.1).
func parsePrefixes(text string) []netip.Prefix {
	var out []netip.Prefix
	for field := range strings.FieldsSeq(text) {
		p, err := netip.ParsePrefix(field)
		if err != nil {
			a, addrErr := netip.ParseAddr(field)
			if addrErr != nil || a.Zone() != "" {
				return nil
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Bits() == 0 || p.Addr().Is4In6() {
			return nil
		}
		out = append(out, p.Masked())
	}
	return out
}
