/// Why the launcher could not do what it was asked, and what helps: cause first, then the cure.
///
/// Printed as it stands, so it is written for the person at the terminal.
struct Refusal: Error, CustomStringConvertible {
    let cause: String
    let cure: String?

    init(_ cause: String, cure: String? = nil) {
        self.cause = cause
        self.cure = cure
    }

    var description: String { [cause, cure].compactMap(\.self).joined(separator: "\n  ") }
}
