package spelling_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/base/spelling"
)

func TestNearestFindsMisspelledNames(t *testing.T) {
	names := []string{"maxLength", "minLength", "pattern"}
	for _, test := range []struct {
		typed, want string
		isNear      bool
	}{
		{"maxLenght", "maxLength", true}, {"paterns", "pattern", true}, {"pattern", "pattern", true}, {"color", "", false},
	} {
		got, isNear := spelling.Nearest(test.typed, names, 2)
		if isNear != test.isNear {
			t.Errorf("Nearest(%s) is near = %t, want %t", test.typed, isNear, test.isNear)
		}
		if isNear && got != test.want {
			t.Errorf("Nearest(%s) = %s, want %s", test.typed, got, test.want)
		}
	}
}
