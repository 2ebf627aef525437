internal import Orchestration

/// Reads the fields of a form one by one, and gathers what is wrong with them.
///
/// A field that is not there is nil and no error: what is not named stays as it is.
struct SettingsForm {
    private let form: FormParameters
    private(set) var errors: [FieldError] = []

    init(_ form: FormParameters) { self.form = form }

    mutating func require(_ field: String) {
        guard form[field] == nil else { return }
        errors.append(FieldError(field, "The value must be supplied"))
    }

    /// What is misspelt, or not known here, would go unnoticed.
    mutating func refuseOthers(than known: Set<String>) {
        for (name, _) in form.pairs where !known.contains(name) {
            errors.append(FieldError(name, "Unsupported key"))
        }
    }

    /// Settings that are what they are: who says the same is agreed with.
    mutating func confirm(_ fixed: [(field: String, value: Bool, reason: String)]) {
        for (field, value, reason) in fixed {
            if let asked = flag(field), asked != value { refuse(field, reason) }
        }
    }

    mutating func refuse(_ field: String, _ reason: String) {
        errors.append(FieldError(field, reason))
    }

    mutating func number(_ field: String, _ range: ClosedRange<Int>) -> UInt16? {
        guard let text = form[field] else { return nil }
        let number = FormParameters.number(text).flatMap(Int.init(exactly:))
        if let number, range.contains(number) { return UInt16(number) }
        let bounds = "\(range.lowerBound) to \(range.upperBound)"
        errors.append(
            FieldError(field, "The value of \"\(field)\" must be in range from \(bounds)")
        )
        return nil
    }

    mutating func flag(_ field: String) -> Bool? {
        switch form[field] {
        case "true": return true
        case "false": return false
        case nil: return nil
        default:
            errors.append(FieldError(field, "The value of \"\(field)\" must be true or false"))
            return nil
        }
    }
}
