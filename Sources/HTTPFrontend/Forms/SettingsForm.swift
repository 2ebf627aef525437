internal import ClusterService
internal import Orchestration

/// Parses the fields of a settings form and collects their errors.
///
/// A missing field is nil and not an error: its setting stays unchanged.
struct SettingsForm {
    private let form: FormParameters
    private(set) var errors: [FieldError] = []

    init(_ form: FormParameters) { self.form = form }

    mutating func require(_ field: String) {
        guard form[field] == nil else { return }
        errors.append(FieldError(field, "The value must be supplied"))
    }

    /// Adds an error for every unknown field: a misspelt field would otherwise be ignored silently.
    mutating func refuseUnknownFields(except known: Set<String>) {
        for (name, _) in form.pairs where !known.contains(name) {
            errors.append(FieldError(name, "Unsupported key"))
        }
    }

    /// Adds an error for every fixed setting that the form would change.
    mutating func checkFixed(_ fixed: [(field: String, value: Bool, reason: String)]) {
        for (field, value, reason) in fixed {
            if let asked = flag(field), asked != value { refuse(field, reason) }
        }
    }

    mutating func refuse(_ field: String, _ reason: String) {
        errors.append(FieldError(field, reason))
    }

    /// The number of a field; nil if it is missing, or with an error if it is not in range.
    mutating func number(_ field: String, _ range: ClosedRange<Int>) -> UInt16? {
        wholeNumber(field, UInt64(range.lowerBound)...UInt64(range.upperBound))
            .flatMap(UInt16.init(exactly:))
    }

    /// As `number`, for larger ones.
    mutating func wholeNumber(_ field: String, _ range: ClosedRange<UInt64>) -> UInt64? {
        guard let text = form[field] else { return nil }
        if let number = FormParameters.number(text), range.contains(number) { return number }
        let bounds = "\(range.lowerBound) to \(range.upperBound)"
        errors.append(
            FieldError(field, "The value of \"\(field)\" must be in range from \(bounds)")
        )
        return nil
    }

    /// The choice of a field by its name; nil if it is missing, or with an error if there is no such choice.
    mutating func choice<Value>(_ field: String, _ choices: [(name: String, value: Value)])
        -> Value?
    {
        guard let text = form[field] else { return nil }
        if let choice = choices.first(where: { $0.name == text }) { return choice.value }
        let names = choices.map(\.name).joined(separator: ", ")
        errors.append(FieldError(field, "The value of \"\(field)\" must be one of \(names)"))
        return nil
    }

    /// The Boolean of a field; nil if it is missing, or with an error if it is neither true nor
    /// false.
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

extension SettingsForm {
    /// Makes the change of a form without errors, unless the request only asks to validate it.
    ///
    /// - Parameters:
    ///   - call: The request.
    ///   - done: The reply after the change.
    ///   - change: Makes the change.
    /// - Throws: The error of the change.
    /// - Returns: The reply.
    func reply(
        to call: Call,
        done: Reply = .done,
        _ change: () async throws(AdministrationError) -> Void
    ) async throws(AdministrationError) -> Reply {
        guard errors.isEmpty else { return .refused(errors) }
        if call.request.isValidationOnly { return .valid }
        try await change()
        return done
    }

    /// As `reply`, for settings of the cluster.
    func reply(
        to call: Call,
        setting settings: ClusterSettings,
        done: Reply = .done
    ) async throws(AdministrationError) -> Reply {
        try await reply(to: call, done: done) { () throws(AdministrationError) in
            try await call.service.settings.change(settings: settings, was: call.state.settings)
        }
    }
}
