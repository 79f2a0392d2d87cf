package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoFloatingPoint: nothing that could round a decision stands in this package.
func TestNoFloatingPoint(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	positions := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(positions, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			id, isName := n.(*ast.Ident)
			lit, isLiteral := n.(*ast.BasicLit)
			if isName && strings.HasPrefix(id.Name, "float") || isLiteral && lit.Kind == token.FLOAT {
				t.Errorf("%v: floating point; use integers, 128 bits wide by math/bits where they are too small", positions.Position(n.Pos()))
			}
			return true
		})
	}
}
