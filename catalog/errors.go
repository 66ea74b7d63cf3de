package catalog

import (
	"errors"
	"fmt"
)

// What an error means to the caller. Each [Error] is one of them.
var (
	ErrInvalid       = errors.New("invalid argument")
	ErrNotFound      = errors.New("not found")
	ErrExists        = errors.New("already exists")
	ErrPrecondition  = errors.New("failed precondition")
	ErrUnimplemented = errors.New("not implemented")
	// ErrChanged is about a file that is not the one that was registered any more.
	ErrChanged = errors.New("file changed")
)

// Error is a refusal: a text for the user, whose words clients match on, and
// what it means.
type Error struct {
	Kind error // one of the sentinels of this package
	Text string
	Err  error // the cause, or nil
}

func (e *Error) Error() string { return e.Text }

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// refuse makes an [Error]. The cause is what the format verb %w stands for.
func refuse(kind error, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Text: err.Error(), Err: errors.Unwrap(err)}
}
