package minilm_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm/minilmtest"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// tokenizedText is a text with the tokens of the published tokenizer (testdata/reference.py).
type tokenizedText struct {
	Text string
	IDs  []int32
}

// texts returns the texts in testdata/tokens.json.
func texts(t testing.TB) []tokenizedText {
	t.Helper()
	var all []tokenizedText
	readJSON(t, "testdata/tokens.json", &all)
	return all
}

// readJSON decodes a JSON file into dst.
func readJSON(t testing.TB, file string, dst any) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, dst)
	}
	if err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
}

// vocabulary returns the vocabulary in a file of weights.
func vocabulary(t testing.TB) []byte {
	t.Helper()
	file := minilmtest.File(t)
	file = file[bytes.IndexByte(file, '\n')+1:]
	return file[4:][:binary.LittleEndian.Uint32(file)]
}

// TestTokensMatchPublishedTokenizer compares 1,000 texts: lines of the documentation, and texts
// in many scripts, with punctuation, spaces and emoji. The texts have no characters that are
// new in Unicode: the published tokenizer drops characters that its tables do not have yet.
func TestTokensMatchPublishedTokenizer(t *testing.T) {
	tokenizer, err := minilm.NewTokenizer(vocabulary(t))
	if err != nil {
		t.Fatal(err)
	}
	all := texts(t)
	if len(all) != 1000 {
		t.Fatalf("texts = %d, want 1000", len(all))
	}
	for _, text := range all {
		if got := tokenizer.Tokens(text.Text, minilm.MaxTokens); !slices.Equal(got, text.IDs) {
			t.Errorf("Tokens(%.80q) =\n%v, want\n%v", text.Text, got, text.IDs)
		}
	}
}

// TestVectorsMatchPublishedModel checks that quantizing the weights to 4 to 8 bits changes vectors only
// slightly: for each text in testdata/vectors.json, the cosine of our vector and the published one is at least 0.99.
func TestVectorsMatchPublishedModel(t *testing.T) {
	simulations.SkipUnderRace(t)
	model, all := minilmtest.Model(t), texts(t)
	var encoded map[string]string
	readJSON(t, "testdata/vectors.json", &encoded) // vectors by the index of their texts
	var got, want []minilm.Vector
	worst := float32(1)
	for index, vector := range encoded {
		i, err := strconv.Atoi(index)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(vector)
		if err != nil {
			t.Fatal(err)
		}
		var wantVector minilm.Vector
		for c := range wantVector {
			wantVector[c] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*c:]))
		}
		gotVector := model.Embed(all[i].Text)
		cosine := gotVector.Dot(&wantVector)
		if worst = min(worst, cosine); cosine < 0.99 {
			t.Errorf("cosine of Embed(%.60q) and the published vector = %.4f, want at least 0.99", all[i].Text, cosine)
		}
		got, want = append(got, gotVector), append(want, wantVector)
	}
	if len(got) < 30 {
		t.Fatalf("compared vectors = %d, want at least 30", len(got))
	}
	var shift float64
	for i := range got {
		for j := range i {
			shift = max(shift, math.Abs(float64(got[i].Dot(&got[j])-want[i].Dot(&want[j]))))
		}
	}
	t.Logf("the least cosine is %.4f, and the largest difference between cosines of two texts %.4f", worst, shift)
}

// TestEmbedConcurrentUse checks that a model is safe for concurrent use.
func TestEmbedConcurrentUse(t *testing.T) {
	model := minilmtest.Model(t)
	want := model.Embed("How are keys rotated?")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := model.Embed("How are keys rotated?"); got != want {
				t.Error("concurrent Embed() = another vector, want that of a single call")
			}
		})
	}
	wg.Wait()
}

// smallTokenizer returns a tokenizer for tests that need no weights.
func smallTokenizer(t *testing.T) *minilm.Tokenizer {
	t.Helper()
	tokenizer, err := minilm.NewTokenizer([]byte(strings.Join([]string{
		"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "key", "##s", "un", "##want", "##ed", ",", "cafe", "日", "want", "e",
		"##x",
	}, "\n") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}

func TestWordsAreSplitIntoLongestPieces(t *testing.T) {
	tests := []struct {
		name, text string
		limit      int
		want       []int32
	}{
		{"an empty text", "", 256, []int32{2, 3}},
		{"a word", "key", 256, []int32{2, 5, 3}},
		{"capitals", "KEY Keys", 256, []int32{2, 5, 5, 6, 3}},
		{"three pieces", "unwanted", 256, []int32{2, 7, 8, 9, 3}},
		{"a word with an unknown end", "keyz", 256, []int32{2, 1, 3}},
		{"punctuation between words", "key,key", 256, []int32{2, 5, 10, 5, 3}},
		{"a composed accent", "Café", 256, []int32{2, 11, 3}},
		{"a combining accent", "cafe\u0301", 256, []int32{2, 11, 3}},
		{"a no-break space", "key\u00a0want", 256, []int32{2, 5, 13, 3}},
		{"Chinese characters", "日日", 256, []int32{2, 12, 12, 3}},
		{"invisible characters", "k\u200bey\x00", 256, []int32{2, 5, 3}},
		{"a special token in the text", "key [MASK]want", 256, []int32{2, 5, 4, 13, 3}},
		{
			"a word of a hundred letters", "e" + strings.Repeat("x", 99), 256,
			append(append([]int32{2, 14}, slices.Repeat([]int32{15}, 99)...), 3),
		},
		{"a word of 101 letters", "e" + strings.Repeat("x", 100), 256, []int32{2, 1, 3}},
		{"a text over the limit", "key want key want", 4, []int32{2, 5, 13, 3}},
		{"a word over the limit", "unwanted", 4, []int32{2, 7, 8, 3}},
	}
	tokenizer := smallTokenizer(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tokenizer.Tokens(tt.text, tt.limit); !slices.Equal(got, tt.want) {
				t.Errorf("Tokens(%q, %d) = %v, want %v", tt.text, tt.limit, got, tt.want)
			}
		})
	}
}

func FuzzTokensAreWithinTheLimit(f *testing.F) {
	f.Add("Café [SEP] 日本 key,s\xff", 5)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 2 + int(uint(limit)%300)
		tokens := smallTokenizer(t).Tokens(text, limit)
		if len(tokens) > limit || tokens[0] != 2 || tokens[len(tokens)-1] != 3 {
			t.Errorf("Tokens(%q, %d) = %v, want at most %d tokens, 2 ([CLS]) first and 3 ([SEP]) last",
				text, limit, tokens, limit)
		}
	})
}

func TestVocabularyWithoutSpecialTokensIsRefused(t *testing.T) {
	if _, err := minilm.NewTokenizer([]byte("key\n##s\n")); err == nil {
		t.Error("NewTokenizer(vocabulary without [CLS]) = no error, want one")
	}
}

func BenchmarkQuery(b *testing.B) {
	model := minilmtest.Model(b)
	for b.Loop() {
		model.Embed("Is it possible to charge customers by units computed?")
	}
}
