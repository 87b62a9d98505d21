package keys

import (
	"context"
	"errors"
	"fmt"
)

// CreateKeys makes 1 to maxBulk keys, all or none, and shows their texts in the
// order of in.
//
// Up to keysPerTransaction keys are one transaction. More are a large change, of
// the type bulk, and so are fewer whose texts take more writes than one transaction has: chosen ones, while the root key is
// rotated.
func (s *Service) CreateKeys(ctx context.Context, at ConsumerAt, in []NewKey) ([]Key, error) {
	if err := checkBulk(in); err != nil {
		return nil, err
	}
	if len(in) <= keysPerTransaction {
		out, err := s.createInOneTransaction(ctx, at, in)
		if !errors.Is(err, errTooLarge) {
			return out, err
		}
	}
	var out []Key
	err := s.retryTextInUse(ctx, in, func() (err error) {
		out, err = (&bulk{s: s, at: at, in: in}).create(ctx)
		return err
	})
	return out, err
}

func checkBulk(in []NewKey) error {
	var wrong problems
	if len(in) == 0 || len(in) > maxBulk {
		wrong.Add("", "has to hold 1 to %d keys", maxBulk)
		return wrong.Err()
	}
	used := make(map[string]bool)
	for i, n := range in {
		at := fmt.Sprintf("[%d].", i)
		wrong.newKey(at, n)
		if n.Text != "" && used[n.Text] {
			wrong.Add(at+"key", "repeats the text of another key of this request")
		}
		used[n.Text] = true
	}
	return wrong.Err()
}
