internal import Orchestration

/// The fields that a request may have, each at most once.
///
/// Of a repeated field one value would count, and the other be ignored like a misspelt one.
struct Parameters: Sendable {
    /// Fields of all routes of the admin port (`AdminTable`).
    private static let common: Set<String> = ["uuid", "bucket_uuid", "just_validate"]

    /// The most errors of one reply: a body may have a hundred thousand fields.
    private static let errorsMax = 20

    /// In the order of the errors and the documentation.
    let names: [String]
    /// Those of `names` that may be repeated.
    var lists: Set<String> = []

    /// The errors of fields: unknown or repeated ones, in the order sent.
    func flaws(of fields: FormParameters) -> [FieldError] {
        var seen: Set<String> = []
        var errors: [FieldError] = []
        for (name, _) in fields.pairs where seen.insert(name).inserted {
            guard errors.count < Self.errorsMax else { break }
            if !names.contains(name), !Self.common.contains(name) {
                errors.append(FieldError(name, unknown))
            } else if !lists.contains(name), fields.all(name).count > 1 {
                errors.append(FieldError(name, "\(name) is repeated. Send it once."))
            }
        }
        return errors
    }

    /// The text of an unknown field's error; it begins as Couchbase Server's.
    private var unknown: String {
        guard !names.isEmpty else { return "Unsupported key: this request has no parameters" }
        return "Unsupported key: this request has \(names.joined(separator: ", "))"
    }
}
