package keys

import (
	"context"
	"errors"
	"fmt"
)

// CreateKeys creates 1 to maxBulk keys, all or none, and returns them with their texts, in the order of the input. It
// returns Conflict if a text is in use, and Forbidden if the consumer would exceed limits.ConsumerKeys. A large change
// can also return Throttled, if too many are in progress in the bucket, and Unavailable, if the keys could not be
// written in time.
//
// One transaction creates up to keysPerTransaction keys. More keys are created by a large change (type bulk). While the
// root key is rotated, keys with chosen texts need more writes. CreateKeys then uses a large change for fewer keys,
// too, if one transaction does not have enough writes.
func (s *Service) CreateKeys(ctx context.Context, at ConsumerLocator, in []NewKey) ([]Key, error) {
	if err := checkBulk(in); err != nil {
		return nil, err
	}
	if len(in) <= keysPerTransaction {
		out, err := s.createInTransaction(ctx, at, in)
		if !errors.Is(err, errTooLarge) {
			return out, err
		}
	}
	var out []Key
	err := s.retryTextInUse(ctx, in, func() (err error) {
		out, err = (&bulk{service: s, at: at, in: in}).create(ctx)
		return err
	})
	return out, err
}

func checkBulk(in []NewKey) error {
	var invalid problems
	if len(in) == 0 || len(in) > maxBulk {
		invalid.Add("", "has to hold 1 to %d keys", maxBulk)
		return invalid.Err()
	}
	seen := make(map[string]bool)
	for i, n := range in {
		location := fmt.Sprintf("[%d].", i)
		invalid.keySpec(location, n)
		if n.Text != "" && seen[n.Text] {
			invalid.Add(location+"key", "repeats the text of another key of this request")
		}
		seen[n.Text] = true
	}
	return invalid.Err()
}
