package call

import (
	"errors"
	"fmt"
)

// Ended reads how an operation goes that was begun, and that goes on by itself. Id is what its progress is asked for by, and done says that
// it is made. Its error says why it has failed, or that the API does not say how it goes.
func Ended(document []byte) (id string, done bool, err error) {
	var of struct{ ID, Status, Message string }
	if err := Read(document, &of); err != nil {
		return "", false, fmt.Errorf("read how the operation goes: %w", err)
	}
	switch {
	case of.ID == "":
		return "", false, errors.New("the API does not say how to follow the operation")
	case of.Status == "success":
		return of.ID, true, nil
	case of.Status == "error":
		return of.ID, false, fmt.Errorf("the operation has failed: %s", of.Message)
	case of.Status == "in-progress":
		return of.ID, false, nil
	}
	return of.ID, false, fmt.Errorf("the API says of the operation %s %q, which is no status", of.ID, of.Status)
}
