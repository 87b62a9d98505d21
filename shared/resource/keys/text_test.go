package keys

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

func TestGeneratedKeysDetectTypos(t *testing.T) {
	s := &Service{parts: installation.Parts{IDs: ids.NewSource(storetest.Random(t), func() time.Time {
		return storetest.Epoch
	})}}
	rapid.Check(t, func(t *rapid.T) {
		text := s.newText()
		if !wellFormed(text) {
			t.Fatalf("wellFormed(%q) = false, want true for a generated key", text)
		}
		var invalid problems
		if invalid.customKey("key", text); invalid.Err() != nil {
			t.Fatalf("customKey(%q) = %v, want no error for a generated key", text, invalid.Err())
		}
		i := rapid.IntRange(len("gwk_"), len(text)-1).Draw(t, "position")
		other := rapid.SampledFrom(strings.Split("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-",
			"")).Draw(t, "replacement")
		if typo := text[:i] + other + text[i+1:]; typo != text && wellFormed(typo) {
			t.Fatalf("wellFormed(%q) = true, want false for a typo in %q", typo, text)
		}
	})
}

func TestCustomKeyValidation(t *testing.T) {
	for _, test := range []struct {
		name, text string
		ok         bool
	}{
		{"shortest", strings.Repeat("k", 16), true},
		{"too short", strings.Repeat("k", 15), false},
		{"longest", strings.Repeat("k", 256), true},
		{"too long", strings.Repeat("k", 257), false},
		{"space", "0123456789 0123456789", false},
		{"a leading space", " 01234567890123456789", false},
		{"control", "0123456789\x000123456789", false},
		{"not ASCII", "0123456789é0123456789", false},
		{"invalid UTF-8", "0123456789\xff0123456789", false},
		{"punctuation", `!"#$%&'()*+,-./:;<=>?@[\]^_{|}~`, true},
		{"the product's prefix, wrong checksum", "gwk_0123456789abcdef0123456789abcdef_00000000", false},
		{"the product's prefix, wrong length", "gwk_0123456789abcdef", false},
		{"an account key", "gwa_0123456789abcdef0123456789abcdef_00000000", false},
		{"a bucket's token", "gwb_0123456789abcdef0123456789abcdef_00000000", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var invalid problems
			invalid.customKey("key", test.text)
			if (invalid.Err() == nil) != test.ok {
				t.Fatalf("customKey() problems = %v, want valid: %t", invalid, test.ok)
			}
			if test.ok && !wellFormed(test.text) {
				t.Fatalf("wellFormed(%q) = false, want true for a valid custom key", test.text)
			}
			for _, d := range invalid.Fields {
				if d.Field != "key" || strings.Contains(d.Message, test.text) {
					t.Fatalf("problem = %+v, want field key and a message without the text", d)
				}
			}
		})
	}
}

func TestKeyIDsIncreaseWhenClockGoesBack(t *testing.T) {
	const suffix = "0123456789abcdef"
	for previous, want := range map[string]string{
		"key_00000000": "key_00000001", "key_00000009": "key_0000000A", "key_0000000Z": "key_0000000a",
		"key_0000000z": "key_00000010", "key_0zzzzzzz": "key_10000000",
	} {
		if got := idAfter(previous+suffix, previous+suffix); got != want+suffix {
			t.Errorf("idAfter(%s, same) = %s, want %s", previous+suffix, got, want+suffix)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`key_[0-9A-Za-y][0-9A-Za-z]{23}`)
		previous, id := digits.Draw(t, "previous"), digits.Draw(t, "id")
		got := idAfter(previous, id)
		if got <= previous || !keyIDPattern.MatchString(got) {
			t.Fatalf("idAfter(%s, %s) = %s, want a later valid ID", previous, id, got)
		}
		if id > previous && got != id {
			t.Fatalf("idAfter(%s, %s) = %s, want the ID itself", previous, id, got)
		}
	})
}

func TestInvalidInputNamesFieldWithoutValue(t *testing.T) {
	const secret = "s3cr3t-value"
	long := strings.Repeat(secret, 100)
	for _, test := range []struct {
		name, field string
		check       func(*problems)
	}{
		{"bucket name short", "name", func(p *problems) { p.bucketName("abcd") }},
		{"bucket name upper case", "name", func(p *problems) { p.bucketName("Orders") }},
		{"bucket name with a line break", "name", func(p *problems) { p.bucketName("orders\n") }},
		{"bucket name long", "name", func(p *problems) { p.bucketName(strings.Repeat("b", 129)) }},
		{"consumer name empty", "name", func(p *problems) { p.consumerName("") }},
		{"consumer name with a slash", "name", func(p *problems) { p.consumerName("a/b") }},
		{"consumer name with #", "name", func(p *problems) { p.consumerName("a#b") }},
		{"consumer name like an id", "name", func(p *problems) { p.consumerName("csmr_abcdefghijklmnopqrstuvwx") }},
		{"description long", "description", func(p *problems) { p.description("description", long) }},
		{"description with NUL", "description", func(p *problems) { p.description("description", secret+"\x00") }},
		{"description not UTF-8", "description", func(p *problems) { p.description("description", secret+"\xff") }},
		{"six tags", "tags", func(p *problems) {
			p.tags(map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"}, maxConsumerTags)
		}},
		{"tag without a name", "tags", func(p *problems) { p.tags(map[string]string{"": secret}, 5) }},
		{"tag's name long", "tags", func(p *problems) { p.tags(map[string]string{long: "1"}, 5) }},
		{"tag's value long", "tags", func(p *problems) { p.tags(map[string]string{"a": long}, 5) }},
		{"email without @", "email", func(p *problems) { p.email("email", secret) }},
		{"email with a name", "email", func(p *problems) { p.email("email", secret+" <a@b.example>") }},
		{"email with a line break", "email", func(p *problems) { p.email("email", "a@b.example\r\n") }},
		{"sub empty", "sub", func(p *problems) { p.sub("sub", "") }},
		{"two managers of one address", "managers[1]", func(p *problems) {
			p.managers([]NewManager{
				{Email: "s3cr3t-value@b.example", Invite: true},
				{Email: "S3cr3t-value@b.example", Sub: "x"},
			})
		}},
		{"year 10000", "expiresOn", func(p *problems) {
			p.expiry("expiresOn", new(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p problems
			test.check(&p)
			if len(p.Fields) == 0 || p.Fields[0].Field != test.field {
				t.Fatalf("problems = %+v, want one of the field %s", p, test.field)
			}
			if err := p.Err(); strings.Contains(strings.ToLower(err.Error()), secret) {
				t.Fatalf("error = %v, want it without the value", err)
			}
		})
	}
}

func TestInputsAtLimitsAreValid(t *testing.T) {
	var p problems
	p.bucketName(strings.Repeat("b", 128))
	p.consumerName("org_123")
	p.consumerName(strings.Repeat("c", 128))
	p.description("description", strings.Repeat("é", maxDescription))
	p.tags(map[string]string{
		"a": strings.Repeat("v", maxTagValue), strings.Repeat("k", maxTagKey): "", "c": "3", "d": "4",
		"e": "5",
	}, maxConsumerTags)
	p.email("email", "first.last+tag@sub.example.com")
	if err := p.Err(); err != nil {
		t.Fatalf("problems of inputs at their limits = %v, want none", err)
	}
}

func TestExpiryYearIsValidated(t *testing.T) {
	west := time.FixedZone("west", -3600)
	for _, test := range []struct {
		at time.Time
		ok bool
	}{
		{time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), true},
		{time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC), false},
		{time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), true},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), false},
		{time.Date(9999, 12, 31, 23, 0, 0, 0, west), false}, // the year 10000 in UTC
	} {
		var invalid problems
		if invalid.expiry("expiresOn", &test.at); (invalid.Err() == nil) != test.ok {
			t.Errorf("expiry(%v) error = %v, want valid %t", test.at, invalid.Err(), test.ok)
		}
	}
}

// TestDirectoryIsBounded checks that the directory caches the names of at most directorySize consumers.
func TestDirectoryIsBounded(t *testing.T) {
	d := newDirectory()
	for i := range directorySize + 10 {
		d.setConsumer(strconv.Itoa(i), "name")
		if _, ok := d.consumer(strconv.Itoa(i)); !ok || len(d.consumers) != min(i+1, directorySize) {
			t.Fatalf("after %d consumers: %d cached, last one known: %t, want %d and true",
				i+1, len(d.consumers), ok, min(i+1, directorySize))
		}
	}
	d.setConsumer(strconv.Itoa(directorySize+9), "name") // an entry that exists is replaced, so no other entry is removed
	if len(d.consumers) != directorySize {
		t.Errorf("%d consumers cached, want %d", len(d.consumers), directorySize)
	}
}

func TestManagerAndTextLimits(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, test := range []struct {
		name  string
		check func(p *problems)
		ok    bool
	}{
		{"the longest address", func(p *problems) {
			p.email("email", long(maxEmail-len("@b.example"))+"@b.example")
		}, true},
		{"an address that is too long", func(p *problems) {
			p.email("email", long(maxEmail+1-len("@b.example"))+"@b.example")
		}, false},
		{"the longest sub", func(p *problems) { p.sub("sub", long(maxSub)) }, true},
		{"a sub that is too long", func(p *problems) { p.sub("sub", long(maxSub+1)) }, false},
		{"no sub", func(p *problems) { p.sub("sub", "") }, false},
		{"a line break", func(p *problems) { p.description("description", "a\nb") }, true},
		{"a control character first", func(p *problems) { p.description("description", "\x1bb") }, false},
		{"a control character last", func(p *problems) { p.description("description", "a\x1b") }, false},
	} {
		var invalid problems
		if test.check(&invalid); (invalid.Err() == nil) != test.ok {
			t.Errorf("%s: error = %v, want valid %t", test.name, invalid.Err(), test.ok)
		}
	}
}

// TestDirectoryConcurrentUse uses a directory concurrently. The race detector always reports an access without the
// lock, and the runtime often does.
func TestDirectoryConcurrentUse(t *testing.T) {
	t.Parallel()
	d := newDirectory()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 200 {
				name := strconv.Itoa((n + i) % 50)
				d.setConsumer(name, name)
				d.setBucket(name, qualifiedName{"acme", name})
				d.setGeneration(qualifiedName{"acme", name}, 1+i%2)
				if got, ok := d.consumer(name); !ok || got != name {
					t.Errorf("consumer(%s) = %q, %t, want %[1]q, true", name, got, ok)
				}
				if got, ok := d.bucket(name); !ok || got.name != name {
					t.Errorf("bucket(%s) = %v, %t, want name %[1]s, true", name, got, ok)
				}
				if got := d.generation(qualifiedName{"acme", name}); got != 1 && got != 2 {
					t.Errorf("generation(%s) = %d, want 1 or 2", name, got)
				}
			}
		})
	}
	wg.Wait()
}
