package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// exactNumbers has the numbers of a description that a float64 cannot represent. The library for the conversion keeps
// numbers as float64, so that it would change 9223372036854775807 to 9223372036854775808.
type exactNumbers struct {
	// texts has the numbers as the description has them, by their float64. It has "" where two numbers have the same float64.
	texts map[float64]string
	notes []string
}

// maxNumberNotes is the maximum number of notes about numbers that change.
const maxNumberNotes = 10

// readExactNumbers returns the numbers of a description that a float64 cannot represent. The notes name those that the
// conversion changes nevertheless, because another number of the description has the same float64.
func readExactNumbers(d document) (*exactNumbers, error) {
	e := &exactNumbers{texts: map[float64]string{}}
	first := map[float64]string{}
	err := eachNumber(d.value, func(text string, value float64, at func() jsontext.Pointer) {
		exact, isKnown := first[value]
		if !isKnown {
			first[value] = text
			if !isRepresentable(text, value) {
				e.texts[value] = text
			}
			return
		}
		if normalize(exact) == normalize(text) {
			return
		}
		e.texts[value] = ""
		if len(e.notes) < maxNumberNotes {
			e.notes = append(e.notes, fmt.Sprintf("%s: the conversion cannot distinguish %s from %s, which the description "+
				"also has: correct the numbers in %s", d.place(string(at())), shorten(text), shorten(exact), RoutesFile))
		}
	})
	return e, err
}

// eachNumber calls visit for each number of a JSON text, except those that are too large for a float64.
func eachNumber(text jsontext.Value, visit func(text string, value float64, at func() jsontext.Pointer)) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		if d.PeekKind() == jsontext.KindNumber {
			number, err := d.ReadValue()
			if err != nil {
				return fmt.Errorf("read a number of the description: %w", err)
			}
			if value, err := strconv.ParseFloat(string(number), 64); err == nil {
				visit(string(number), value, d.StackPointer)
			}
			continue
		}
		if _, err := d.ReadToken(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the numbers of the description: %w", err)
		}
	}
}

// restore returns a converted description with the numbers of the original.
func (e *exactNumbers) restore(converted []byte) ([]byte, error) {
	if len(e.texts) == 0 {
		return converted, nil
	}
	var out bytes.Buffer
	d, w := jsontext.NewDecoder(bytes.NewReader(converted)), jsontext.NewEncoder(&out)
	for {
		var err error
		if d.PeekKind() == jsontext.KindNumber {
			var number jsontext.Value
			if number, err = d.ReadValue(); err == nil {
				if value, parseErr := strconv.ParseFloat(string(number), 64); parseErr == nil && e.texts[value] != "" {
					number = jsontext.Value(e.texts[value])
				}
				err = w.WriteValue(number)
			}
		} else {
			var token jsontext.Token
			if token, err = d.ReadToken(); errors.Is(err, io.EOF) {
				return out.Bytes(), nil
			}
			if err == nil {
				err = w.WriteToken(token)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("write the numbers of the converted description: %w", err)
		}
	}
}

// isRepresentable reports whether a number that was read into a float64 is written as the same number again.
func isRepresentable(text string, value float64) bool {
	return normalize(text) == normalize(strconv.FormatFloat(value, 'e', -1, 64))
}

// normalize returns a form of a number in JSON that is the same for equal numbers: its digits without zeros at the ends, and
// its exponent. It returns the text itself if the exponent is too large.
func normalize(text string) string {
	mantissa, exponentText, _ := strings.Cut(strings.ToLower(text), "e")
	exponent := 0
	if exponentText != "" {
		var err error
		if exponent, err = strconv.Atoi(exponentText); err != nil {
			return text
		}
	}
	digits, sign := strings.TrimPrefix(mantissa, "-"), ""
	if digits != mantissa {
		sign = "-"
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = whole + fraction
	exponent -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if digits = strings.TrimLeft(trimmed, "0"); digits == "" {
		return "0"
	}
	return fmt.Sprintf("%s%se%d", sign, digits, exponent)
}
