package regex_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/regex"
)

// TestExpressionsMatchAsInECMAScript compares expressions with the results of ECMAScript: with the flag u, or without
// flags if the expression is valid only without them.
func TestExpressionsMatchAsInECMAScript(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern          string
		match, different []string
	}{
		{`^(?=.*[a-z]).{8,}$`, []string{"abcdefgh", "ABCDEFGz"}, []string{"ABCDEFGH", "abc", ""}},
		{
			`^(?=.*\d)(?=.*[A-Z])(?!.*\s)[\w!]{8,20}$`,
			[]string{"Secret12", "A1!!!!!!"},
			[]string{"secret12", "Secret 12", "A1"},
		},
		{`^(?!admin$)[a-z]+$`, []string{"admins", "a"}, []string{"admin", "A"}},
		{`^[a-z]{1,1024}$`, []string{"a", strings.Repeat("z", 1024)}, []string{"", "A", strings.Repeat("z", 1025), "a\n"}},
		{`^.{2,3}$`, []string{"éé", "😀😀😀"}, []string{"é", "aaaa", "a\nb"}},
		{`^\u00e9+$`, []string{"é", "éé"}, []string{"e", `\u00e9`, ""}},
		{`^\u{1F600}\ud83d\ude00$`, []string{"😀😀"}, []string{"😀"}},
		{`^[\u{1F600}-\u{1F64F}]$`, []string{"😀"}, []string{"a"}},
		{`^[^\ud800-\udfff]*$`, []string{"", "a😀"}, nil},
		{`^\x41\cJ\0\/\-$`, []string{"A\n\x00/-"}, []string{"A"}},
		{`^[\w\-. ]+$`, []string{"a-b.c d"}, []string{"a/b"}},
		{`^[\w-.]+$`, []string{"a-b.c"}, []string{"a/b"}},
		{`^[a\-z]+$`, []string{"a-z"}, []string{"b"}},
		{`^[]a]`, nil, []string{"a]", "]", ""}},
		{`^[^]$`, []string{"\n", "é"}, []string{"", "ab"}},
		{`^[\b]$`, []string{"\b"}, []string{"b"}},
		{`\bcat\b`, []string{"a cat", "cat"}, []string{"cats"}},
		{`^\s$`, []string{" ", "\v", "\u00a0", "\u2028", "\ufeff"}, []string{"a", "\u200b"}},
		{`^\S+$`, []string{"aé!"}, []string{"\u00a0", "a b"}},
		{`^[^\s]$`, []string{"a"}, []string{"\u3000"}},
		{`^[\S]$`, []string{"\u0000", "\u1681"}, []string{"\u1680", "\ufeff"}},
		{`^.$`, []string{"a", "é"}, []string{"\n", "\r", "\u2028"}},
		{`^\p{Lu}\p{Script=Greek}\P{L}$`, []string{"Aα1"}, []string{"aα1", "AαB"}},
		{`^(?<year>\d{4})-(?:0[1-9]|1[0-2])$`, []string{"2026-01"}, []string{"2026-13", "٢026-01"}},
		{`^a{02}b{0,01}c{00,}d{01,}$`, []string{"aad", "aabccdd"}, []string{"ad", "aa", "a{02}b{0,01}c{00,}d{01,}"}},
		{`^a{2}b{0,1}c{1,}$`, []string{"aabc", "aacc"}, []string{"abc", "aab"}},
		{`^a{,2}$`, []string{"a{,2}"}, []string{"aa"}},
		{`^{a}]$`, []string{"{a}]"}, []string{"a"}},
		{`a|^b$|`, []string{"xax", "b", "c"}, nil},
		{`^(?:a+?|(b))??$`, []string{"", "aa", "b"}, []string{"ab"}},
		{`^(?i:a)b$`, []string{"Ab", "ab"}, []string{"aB"}},
		{`^(?i:a(?-i:[b]))[b-d]\d$`, []string{"Abc1", "abd0"}, []string{"ABc1", "abD1"}},
		{`^$`, []string{""}, []string{"\n", "a"}},
		{``, []string{"", "a"}, nil},
	} {
		re, err := regex.Compile(test.pattern)
		if err != nil {
			t.Errorf("Compile(%s) error = %v, want none", test.pattern, err)
			continue
		}
		if got := re.String(); got != test.pattern {
			t.Errorf("Compile(%s).String() = %s, want the pattern", test.pattern, got)
		}
		for _, text := range test.match {
			if !re.MatchString(text) {
				t.Errorf("Compile(%s).MatchString(%.20q) = false, want true", test.pattern, text)
			}
		}
		for _, text := range test.different {
			if re.MatchString(text) {
				t.Errorf("Compile(%s).MatchString(%.20q) = true, want false", test.pattern, text)
			}
		}
	}
}

func TestMistakesHaveTheirPlace(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		`^(a`:        "unterminated group at character 2",
		`é(a`:        "unterminated group at character 2",
		`a)`:         "unmatched ) at character 2",
		`[a`:         "unterminated character class at character 1",
		`[b-a]`:      "range out of order in a character class at character 3",
		`a**`:        "nothing to repeat at character 3",
		`a++`:        "nothing to repeat at character 3",
		`^*`:         "nothing to repeat at character 2",
		`a|?`:        "nothing to repeat at character 3",
		`{2}`:        "nothing to repeat at character 1",
		`\b+`:        "nothing to repeat at character 3",
		`a{3,2}`:     "numbers out of order in a quantifier at character 2",
		`(?i)a`:      "invalid group at character 1",
		`(?P<n>a)`:   "invalid group at character 1",
		`(?>a)`:      "invalid group at character 1",
		`(?<1>a)`:    "invalid group name at character 1",
		`\u{110000}`: "no such character at character 1",
		`a\`:         `\ at the end at character 2`,
		`[a\`:        `\ at the end at character 3`,
	} {
		for name, check := range map[string]func(string) error{
			"Check": regex.Check,
			"Compile": func(text string) error {
				_, err := regex.Compile(text)
				return err
			},
		} {
			err := check(pattern)
			if e, ok := errors.AsType[*regex.SyntaxError](err); !ok || e.Error() != want {
				t.Errorf("%s(%s) error = %v, want %s", name, pattern, err, want)
			}
		}
	}
}

// TestUnsupportedExpressionsAreReported checks the reasons for which Compile refuses valid expressions, and that Check
// accepts them.
func TestUnsupportedExpressionsAreReported(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		`(a)\1`:                               "has a back-reference",
		`(?<n>a)\k<n>`:                        "has a back-reference",
		`(?<=a)b`:                             "has a lookbehind",
		`(?<!a)b`:                             "has a lookbehind",
		`(?=a)b`:                              "has a lookahead that is not at its beginning",
		`^a(?=b)`:                             "has a lookahead that is not at its beginning",
		`^(?=a)b|c`:                           "has a lookahead that is not at its beginning",
		`^(?:(?!a).)*$`:                       "has a lookahead that is not at its beginning",
		`^(?=a)*b`:                            "repeats a lookahead",
		`^(ab){1,1001}`:                       "repeats a part of it more than 1,000 times",
		`(?i:[a-z])`:                          "has a class of characters in a group with the flag i",
		`(?i:a(?:\S))`:                        "has a class of characters in a group with the flag i",
		`^a{99999999999999999999}b`:           "repeats a part of it more than 1,000 times",
		`((a{100}){100}){100}`:                "repeats a part of it more than 1,000 times by nested repetitions",
		`^[a-z]{499}b$`:                       "needs more than 500 steps for each character",
		strings.Repeat("a", regex.MaxBytes+1): "has more than 256 bytes",
		`(?m:^a$)`:                            "has a group with the flag m or s",
		`\p{Emoji_Presentation}`:              "has a property of Unicode that cannot be checked",
		`\pL`:                                 `has \p without a property in braces`,
		`\Aa\z`:                               `has the escape \A, which has no meaning in ECMA-262`,
		`[[:alpha:]]`:                         "has a class of POSIX, which has no meaning in ECMA-262",
		`\x4`:                                 `has \x without 2 hexadecimal digits`,
		`\u00e`:                               `has \u without 4 hexadecimal digits`,
		`\c1`:                                 `has \c without a letter`,
		`[\01]`:                               "has an octal escape",
		strings.Repeat("(", 1_001) + strings.Repeat(")", 1_001): "has more than 1000 groups within each other",
		"\xff": "has bytes that are no UTF-8",
	} {
		_, err := regex.Compile(pattern)
		if e, ok := errors.AsType[*regex.UnsupportedError](err); !ok || e.Reason != want {
			t.Errorf("Compile(%.30s) error = %v, want %s", pattern, err, want)
		}
		if err := regex.Check(pattern); err != nil {
			t.Errorf("Check(%.30s) error = %v, want none", pattern, err)
		}
	}
}

// TestHostileExpressionsTakeLinearTime checks texts for which a parser that looks ahead would take quadratic time:
// minutes for these lengths.
func TestHostileExpressionsTakeLinearTime(t *testing.T) {
	t.Parallel()
	const n = 1 << 19
	for _, part := range []string{
		"(", "{", "{1", "0", "1,", "[", "[:", "[[:", `\p`, `\u`, `\ud800`, `\u{`, "(?<a>", "(?i:", "a{1,", "|", "a-", "é",
	} {
		_ = regex.Check(strings.Repeat(part, n/len(part)))
	}
}

// TestCheckKeepsNoTranslation checks that the memory for a long text is at most a small multiple of its size. It is not
// parallel, because it measures what the whole process allocates.
func TestCheckKeepsNoTranslation(t *testing.T) {
	const (
		n       = 1 << 18
		maximum = 16 * n
	)
	nested := strings.Repeat("(", 999) + strings.Repeat("a", n) + strings.Repeat(")", 999)
	for _, part := range []string{
		"a", "é", "0", "1,", "{", "|", "a|", "(a)", "(?=a)", "[a-z]", "[é]", `\d`, `\-`, "a+", "a{12}", nested,
	} {
		text := strings.Repeat(part, max(1, n/len(part)))
		for name, check := range map[string]func(){
			"Check":   func() { _ = regex.Check(text) },
			"Compile": func() { _, _ = regex.Compile(text) },
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			check()
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > maximum {
				t.Errorf("%s(%.10s…) of %d bytes allocated %d bytes, want at most %d", name, text, len(text), got, maximum)
			}
		}
	}
}

// FuzzCompile looks for texts that make Compile panic, or for which Check and Compile disagree.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`^(?=.*[a-z]).{8,}$`, `[\w-.]\u{1F600}`, `(?<a>b|[^]])+?{2,3}`, `\p{L}\x41\cA`, `(?i-:a)`,
	} {
		f.Add(seed, "text")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		re, err := regex.Compile(pattern)
		_, invalid := errors.AsType[*regex.SyntaxError](err)
		if checked := regex.Check(pattern); (checked != nil) != invalid {
			t.Fatalf("Check(%q) error = %v, Compile error = %v, want both or none", pattern, checked, err)
		}
		if err == nil {
			re.MatchString(text)
		}
	})
}
