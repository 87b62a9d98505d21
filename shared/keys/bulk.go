package keys

import (
	"context"
	"fmt"
)

// CreateKeys makes 1 to maxBulk keys, all or none, and shows their texts in the
// order of in.
//
// Up to atOnce keys are one transaction. More are written in portions under a
// mark in the bucket's overlay that hides them; taking the mark out is the one
// commit that makes them all visible. Who dies before leaves an operation
// behind that removes them.
func (s *Service) CreateKeys(ctx context.Context, at ConsumerAt, in []NewKey) ([]Key, error) {
	if err := checkBulk(in); err != nil {
		return nil, err
	}
	if len(in) <= atOnce {
		return s.createAtOnce(ctx, at, in)
	}
	var out []Key
	err := s.retaking(ctx, in, func() (err error) {
		out, err = (&bulk{s: s, at: at, in: in}).create(ctx)
		return err
	})
	return out, err
}

func checkBulk(in []NewKey) error {
	var wrong problems
	if len(in) == 0 || len(in) > maxBulk {
		wrong.add("body", "has to hold 1 to %d keys", maxBulk)
		return wrong.err()
	}
	met := make(map[string]bool)
	for i, n := range in {
		at := fmt.Sprintf("body[%d].", i)
		wrong.newKey(at, n)
		if n.Text != "" && met[n.Text] {
			wrong.add(at+"key", "repeats the text of another key of this request")
		}
		met[n.Text] = true
	}
	return wrong.err()
}
