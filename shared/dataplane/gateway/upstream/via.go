package upstream

import "strings"

// Pseudonym is the gateway's name in Via fields. All gateways use the same name, so that any of
// them recognizes a request that has passed another one. It reveals neither a version nor a host.
const Pseudonym = "gatewright"

// Via returns the member that this gateway adds to a request's Via field, for the HTTP
// version of the received request (RFC 9110, section 7.6.3). A gateway must add a member to
// requests. In responses the field is optional, and this gateway does not write it: loops are
// detected in requests, and some servers do not compress responses if a Via field is present.
func Via(major, minor int) string {
	switch {
	case major >= 3:
		return "3 " + Pseudonym
	case major == 2:
		return "2 " + Pseudonym
	case minor == 0:
		return "1.0 " + Pseudonym
	}
	return "1.1 " + Pseudonym
}

// Hops returns how often a request has passed one of our gateways, according to its Via fields. Each field can have
// several members, separated by commas. A comma in a comment also separates members, so that a comment without an
// end can't hide the members that later gateways have added. The time is linear in the size of the fields.
func Hops(via []string) int {
	n := 0
	for _, value := range via {
		for member := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(receivedBy(member), Pseudonym) {
				n++
			}
		}
	}
	return n
}

// receivedBy returns the second word of a member, which is the name of the recipient.
func receivedBy(member string) string {
	n := 0
	for word := range strings.FieldsFuncSeq(member, func(r rune) bool { return r == ' ' || r == '\t' }) {
		if n++; n == 2 {
			name, _, _ := strings.Cut(word, "(") // remove a comment that follows the name
			return name
		}
	}
	return ""
}
