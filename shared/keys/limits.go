package keys

import (
	"encoding/json"
	"net/mail"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/metadata"
)

// The bounds of what a caller may store. Where contract 2.6 and 8 name none, they
// are ours, each with a 400 that names the field: an item of 400 KB, a partition
// key of 2,048 bytes and a transaction of 100 items would be bounds all the same,
// and answer as internal errors. A tag is part of a partition key, in which some
// characters take three bytes; managers and invites live in the consumer's record
// and are an index row each in the transaction that deletes it.
const (
	// maxBulk is how many keys one bulk creation makes.
	maxBulk = 1000

	maxDescription  = 1024 // characters
	maxBucketTags   = 20
	maxConsumerTags = 5
	maxTagKey       = 64  // bytes
	maxTagValue     = 256 // bytes
	maxManagers     = 50  // managers and invites of a consumer together
	maxEmail        = 254 // bytes, RFC 5321
	maxSub          = 256 // bytes
)

var (
	bucketNamePattern   = regexp.MustCompile(`^[a-z0-9-]{5,128}$`)
	consumerNamePattern = regexp.MustCompile(`^[a-z0-9_-]{1,128}$`)
	bucketIDPattern     = regexp.MustCompile(`^bckt_[0-9A-Za-z]{32}$`)
	consumerIDPattern   = regexp.MustCompile(`^csmr_[0-9A-Za-z]{24}$`)
	keyIDPattern        = regexp.MustCompile(`^key_[0-9A-Za-z]{24}$`)
)

// problems gathers what is wrong with an input of this package. No message
// repeats a value: it may be a secret.
type problems struct{ fault.Fields }

func (p *problems) bucketName(name string) {
	if !bucketNamePattern.MatchString(name) {
		p.Add("name", "has to be 5 to 128 of the characters a-z, 0-9 and -")
	}
}

func (p *problems) consumerName(name string) {
	switch {
	case !consumerNamePattern.MatchString(name):
		p.Add("name", "has to be 1 to 128 of the characters a-z, 0-9, _ and -")
	case consumerIDPattern.MatchString(name):
		// A path may hold a name or an id, and must never mean two consumers.
		p.Add("name", "looks like the id of a consumer; choose another name")
	}
}

func (p *problems) description(location, text string) {
	switch {
	case !plain(text):
		p.Add(location, "has to be UTF-8 text without control characters")
	case utf8.RuneCountInString(text) > maxDescription:
		p.Add(location, "has more than %d characters", maxDescription)
	}
}

func (p *problems) tags(tags map[string]string, most int) {
	if len(tags) > most {
		p.Add("tags", "has more than %d pairs", most)
		return
	}
	for key, value := range tags {
		switch {
		case key == "" || len(key) > maxTagKey || !plain(key):
			p.Add("tags", "a property has to be 1 to %d bytes of UTF-8 text without control characters", maxTagKey)
		case len(value) > maxTagValue || !plain(value):
			p.Add("tags", "a value has to be at most %d bytes of UTF-8 text without control characters", maxTagValue)
		}
	}
}

func (p *problems) metadata(raw json.RawMessage) string { return metadata.Read(&p.Fields, raw) }

func (p *problems) email(location, address string) {
	parsed, err := mail.ParseAddress(address)
	if err != nil || parsed.Address != address || len(address) > maxEmail || !plain(address) {
		p.Add(location, "has to be an email address such as name@example.com")
	}
}

func (p *problems) sub(location, sub string) {
	if sub == "" || len(sub) > maxSub || !plain(sub) {
		p.Add(location, "has to be 1 to %d bytes of UTF-8 text without control characters", maxSub)
	}
}

// plain reports whether text is UTF-8 that a person can read: line breaks and
// tabs are the only control characters.
func plain(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	}) < 0
}
