package upstream

import "strings"

// Pseudonym is the gateway's name in Via fields: the same everywhere, so that a
// request that comes round is known by any gateway, and without a version or a
// host, which nobody has to know.
const Pseudonym = "gatewright"

// Via returns what a request's Via field gets at this gateway, for the version of
// HTTP that it was received with (RFC 9110, section 7.6.3). A gateway has to
// name itself in requests; in responses it may, and ours does not: loops are
// seen in requests, and some servers compress nothing for who answers with Via.
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

// Passes counts how often a request has passed a gateway of ours by its Via
// fields, repeated or joined by commas. A comma divides wherever it stands: a
// comment that a client opens and never closes must not hide what later
// recipients add. The time is linear in the fields' size.
func Passes(via []string) int {
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

// receivedBy returns the second word of a member, which names the recipient.
func receivedBy(member string) string {
	n := 0
	for word := range strings.FieldsFuncSeq(member, func(r rune) bool { return r == ' ' || r == '\t' }) {
		if n++; n == 2 {
			name, _, _ := strings.Cut(word, "(") // of a comment
			return name
		}
	}
	return ""
}
