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

	"github.com/gatewright/gatewright/shared/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/docsearch/minilm/minilmtest"
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

// published is what the published tokenizer makes of a text (testdata/reference.py).
type published struct {
	Text string
	IDs  []int32
}

func texts(t testing.TB) []published {
	t.Helper()
	var all []published
	read(t, "testdata/tokens.json", &all)
	return all
}

func read(t testing.TB, file string, to any) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// vocabulary is the part of a file of weights that is one.
func vocabulary(t testing.TB) []byte {
	t.Helper()
	file := minilmtest.File(t)
	file = file[bytes.IndexByte(file, '\n')+1:]
	return file[4:][:binary.LittleEndian.Uint32(file)]
}

// TestTokensAreThePublishedTokenizers compares 1,000 texts: lines of the documentation, and texts of many scripts,
// marks, spaces and emoji. Characters that Unicode has had for few years are not among them: the published tokenizer
// drops those that its tables do not know yet.
func TestTokensAreThePublishedTokenizers(t *testing.T) {
	tokenizer, err := minilm.NewTokenizer(vocabulary(t))
	if err != nil {
		t.Fatal(err)
	}
	all := texts(t)
	if len(all) != 1000 {
		t.Fatalf("there are %d texts, want 1,000", len(all))
	}
	for _, text := range all {
		if got := tokenizer.Tokens(text.Text, minilm.MaxTokens); !slices.Equal(got, text.IDs) {
			t.Errorf("the tokens of %.80q are\n%v, want\n%v", text.Text, got, text.IDs)
		}
	}
}

// TestVectorsAreThePublishedModels: weights of 4 to 8 bits turn no vector by more than a cosine of 0.99.
func TestVectorsAreThePublishedModels(t *testing.T) {
	simulations.Sequential(t)
	model, all := minilmtest.Model(t), texts(t)
	var encoded map[string]string
	read(t, "testdata/vectors.json", &encoded)
	var got, want []minilm.Vector
	worst := float32(1)
	for at, text := range encoded {
		i, err := strconv.Atoi(at)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		var theirs minilm.Vector
		for c := range theirs {
			theirs[c] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*c:]))
		}
		ours := model.Embed(all[i].Text)
		cosine := ours.Dot(&theirs)
		if worst = min(worst, cosine); cosine < 0.99 {
			t.Errorf("the cosine between our vector of %.60q and the published one is %.4f, want 0.99", all[i].Text, cosine)
		}
		got, want = append(got, ours), append(want, theirs)
	}
	if len(got) < 30 {
		t.Fatalf("only %d vectors were compared", len(got))
	}
	var shift float64
	for i := range got {
		for j := range i {
			shift = max(shift, math.Abs(float64(got[i].Dot(&got[j])-want[i].Dot(&want[j]))))
		}
	}
	t.Logf("the least cosine is %.4f, and the largest difference between cosines of two texts %.4f", worst, shift)
}

// TestEmbedIsTheSameForManyAtOnce: a model is used by many searches.
func TestEmbedIsTheSameForManyAtOnce(t *testing.T) {
	model := minilmtest.Model(t)
	want := model.Embed("How are keys rotated?")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if got := model.Embed("How are keys rotated?"); got != want {
				t.Error("the vector of a text depends on who else asks")
			}
		})
	}
	all.Wait()
}

// small is a vocabulary for tests that need no weights.
func small(t *testing.T) *minilm.Tokenizer {
	t.Helper()
	tokenizer, err := minilm.NewTokenizer([]byte(strings.Join([]string{
		"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "key", "##s", "un", "##want", "##ed", ",", "cafe", "日", "want", "e", "##x",
	}, "\n") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}

func TestWordsAreCutIntoTheirLongestPieces(t *testing.T) {
	tests := []struct {
		name, text string
		limit      int
		want       []int32
	}{
		{"nothing", "", 256, []int32{2, 3}},
		{"a word", "key", 256, []int32{2, 5, 3}},
		{"capitals", "KEY Keys", 256, []int32{2, 5, 5, 6, 3}},
		{"three pieces", "unwanted", 256, []int32{2, 7, 8, 9, 3}},
		{"a word whose end is unknown is unknown as a whole", "keyz", 256, []int32{2, 1, 3}},
		{"punctuation is a word", "key,key", 256, []int32{2, 5, 10, 5, 3}},
		{"accents are taken off", "Café", 256, []int32{2, 11, 3}},
		{"accents that are characters of their own too", "cafe\u0301", 256, []int32{2, 11, 3}},
		{"a space that does not break", "key\u00a0want", 256, []int32{2, 5, 13, 3}},
		{"characters of Chinese stand alone", "日日", 256, []int32{2, 12, 12, 3}},
		{"what nobody sees is dropped", "k\u200bey\x00", 256, []int32{2, 5, 3}},
		{"a special token that is written", "key [MASK]want", 256, []int32{2, 5, 4, 13, 3}},
		{"a word of a hundred letters", "e" + strings.Repeat("x", 99), 256, append(append([]int32{2, 14}, slices.Repeat([]int32{15}, 99)...), 3)},
		{"a longer word is unknown", "e" + strings.Repeat("x", 100), 256, []int32{2, 1, 3}},
		{"no more than the limit", "key want key want", 4, []int32{2, 5, 13, 3}},
		{"no more than the limit, in the middle of a word", "unwanted", 4, []int32{2, 7, 8, 3}},
	}
	tokenizer := small(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tokenizer.Tokens(tt.text, tt.limit); !slices.Equal(got, tt.want) {
				t.Errorf("the tokens are %v, want %v", got, tt.want)
			}
		})
	}
}

func FuzzTokensAreWithinTheLimit(f *testing.F) {
	f.Add("Café [SEP] 日本 key,s\xff", 5)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 2 + int(uint(limit)%300)
		tokens := small(t).Tokens(text, limit)
		if len(tokens) > limit || tokens[0] != 2 || tokens[len(tokens)-1] != 3 {
			t.Errorf("%q has the tokens %v", text, tokens)
		}
	})
}

func TestVocabularyWithoutSpecialTokensIsRefused(t *testing.T) {
	if _, err := minilm.NewTokenizer([]byte("key\n##s\n")); err == nil {
		t.Error("a vocabulary without [CLS] is taken")
	}
}

func BenchmarkQuery(b *testing.B) {
	model := minilmtest.Model(b)
	for b.Loop() {
		model.Embed("Is it possible to charge customers by units computed?")
	}
}
