/// Ends the process with a sentence where something does not hold, in release builds too, where
/// `precondition` keeps its sentence to itself.
@inline(__always)
package func require(
    _ holds: Bool,
    _ sentence: @autoclosure () -> String,
    file: StaticString = #file,
    line: UInt = #line
) {
    if !holds { fatalError(sentence(), file: file, line: line) }
}
