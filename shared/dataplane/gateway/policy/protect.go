package policy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

// The types of the policies that refuse requests by their size or by the address of the client, and of the policy that
// replaces the status.
const (
	sizeLimitType     = "request-size-limit-inbound"
	ipRestrictionType = "ip-restriction-inbound"
	setStatusType     = "set-status-outbound"
)

// sizeLimitOptions are the options of request-size-limit-inbound.
type sizeLimitOptions struct {
	MaxBytes int64 `json:"maxBytes" required:"true" minimum:"0"`
}

// sizeLimit refuses requests whose body is larger than a limit.
type sizeLimit struct{ bytes int64 }

var _ pipeline.Inbound = sizeLimit{}

func newSizeLimit(_ string, raw json.RawMessage, _ *Setup) (Provisioned, []project.Problem) {
	var o sizeLimitOptions
	problems := options.Read(raw, &o)
	return Provisioned{Inbound: sizeLimit{o.MaxBytes}}, problems
}

// Inbound refuses a request with a larger Content-Length. A body without a Content-Length is ended when it exceeds the
// limit: the client then gets the same problem.
func (p sizeLimit) Inbound(x *pipeline.Exchange) *http.Response {
	if x.ContentLength > p.bytes {
		return x.Problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("Send a body of at most %d bytes.", p.bytes))
	}
	if x.HasBody() && x.ContentLength < 0 {
		x.Body = http.MaxBytesReader(nil, x.Body, p.bytes)
	}
	return nil
}

// ipRestrictionOptions are the options of ip-restriction-inbound.
type ipRestrictionOptions struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

// maxAddresses is the maximum number of addresses and ranges in one list.
const maxAddresses = 10_000

// ipRestriction refuses requests by the address of their client. A nil allow admits all addresses.
type ipRestriction struct{ allow, deny *addressSet }

var _ pipeline.Inbound = ipRestriction{}

func newIPRestriction(_ string, raw json.RawMessage, _ *Setup) (Provisioned, []project.Problem) {
	var o ipRestrictionOptions
	problems := options.Read(raw, &o)
	if len(problems) == 0 && len(o.Allow)+len(o.Deny) == 0 {
		problems = append(problems, options.Problem("", "Name addresses in allow or deny: this policy refuses nothing."))
	}
	allow, more := parseAddresses("/allow", o.Allow)
	deny, others := parseAddresses("/deny", o.Deny)
	return Provisioned{Inbound: ipRestriction{allow, deny}}, append(append(problems, more...), others...)
}

// Inbound refuses a request unless the address of its client is in allow, and if it is in deny. A request whose client is
// not known is refused.
func (p ipRestriction) Inbound(x *pipeline.Exchange) *http.Response {
	client := x.Client.Unmap().WithZone("")
	if client.IsValid() && !p.deny.contains(client) && (p.allow == nil || p.allow.contains(client)) {
		return nil
	}
	return x.Problem(http.StatusForbidden, "Ask the owner of the API to admit your address: requests from it are refused.")
}

// addressSet is a set of ranges of addresses. A nil set is empty.
type addressSet struct {
	ranges map[netip.Prefix]bool
	// bits has the lengths of the ranges' prefixes, for IPv4 and for IPv6.
	bits4, bits6 [129]bool
}

// parseAddresses parses addresses and ranges. An entry can have several of them, separated by commas or spaces, because
// the value of a variable can have several. It returns nil for an empty list. pointer is the place of the list.
func parseAddresses(pointer string, entries []string) (*addressSet, []project.Problem) {
	if len(entries) == 0 {
		return nil, nil
	}
	s := &addressSet{ranges: map[netip.Prefix]bool{}}
	var problems []project.Problem
	for i, entry := range entries {
		at := fmt.Sprintf("%s/%d", pointer, i)
		texts := strings.FieldsFunc(entry, func(r rune) bool { return r == ',' || r == ' ' })
		if len(texts) == 0 {
			problems = append(problems, options.Problem(at, "Write an address such as 192.0.2.7, or a range such as "+
				"2001:db8::/32."))
		}
		for _, text := range texts {
			prefix, err := netip.ParsePrefix(text)
			if address, addressErr := netip.ParseAddr(text); addressErr == nil && address.Zone() == "" {
				prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
			}
			if err != nil {
				problems = append(problems, options.Problem(at, "Write an address such as 192.0.2.7, or a range such as "+
					"2001:db8::/32."))
				continue
			}
			if prefix.Masked() != prefix {
				problems = append(problems, options.Problem(at, "Write %s: the address has bits after the prefix of the range.",
					prefix.Masked()))
				continue
			}
			s.add(prefix)
		}
	}
	if len(s.ranges) > maxAddresses {
		problems = append(problems, options.Problem(pointer, "Name at most %d addresses and ranges.", maxAddresses))
	}
	return s, problems
}

// add adds a range. A range of IPv4 addresses that are mapped to IPv6 becomes a range of IPv4 addresses.
func (s *addressSet) add(p netip.Prefix) {
	const mappedBits = 96
	if p.Addr().Is4In6() && p.Bits() >= mappedBits {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	s.ranges[p] = true
	if p.Addr().Is4() {
		s.bits4[p.Bits()] = true
	} else {
		s.bits6[p.Bits()] = true
	}
}

// contains reports whether an address is in a range of the set. It looks up one range for each length of a prefix.
func (s *addressSet) contains(a netip.Addr) bool {
	if s == nil {
		return false
	}
	lengths := &s.bits6
	if a.Is4() {
		lengths = &s.bits4
	}
	for bits := range a.BitLen() + 1 {
		if !lengths[bits] {
			continue
		}
		if p, err := a.Prefix(bits); err == nil && s.ranges[p] {
			return true
		}
	}
	return false
}

// setStatusOptions are the options of set-status-outbound.
type setStatusOptions struct {
	Status int64 `json:"status" required:"true" minimum:"200" maximum:"599"`
}

// setStatus replaces the status of responses.
type setStatus struct{ status int }

var _ pipeline.Outbound = setStatus{}

func newSetStatus(_ string, raw json.RawMessage, _ *Setup) (Provisioned, []project.Problem) {
	var o setStatusOptions
	problems := options.Read(raw, &o)
	return Provisioned{Outbound: setStatus{int(o.Status)}}, problems
}

// Outbound replaces the status. Responses with the new status 204, 205 or 304 have no body.
func (p setStatus) Outbound(_ *pipeline.Exchange, r *http.Response) *http.Response {
	r.StatusCode, r.Status = p.status, ""
	switch p.status {
	case http.StatusNoContent, http.StatusResetContent, http.StatusNotModified:
		_ = r.Body.Close()
		r.Body, r.ContentLength, r.Trailer = http.NoBody, 0, nil
		for _, name := range []string{"Content-Length", "Content-Type", "Content-Encoding", "Content-Range"} {
			delete(r.Header, name)
		}
	}
	return r
}
