import JSON
import SubDocument

/// The operations on a tree, as plainly as they can be written, to compare the edits of bytes with.
///
/// It follows the protocol's order: the path's form, the value, the document. Depth limits are not
/// modelled: the random documents are flat.
enum PathModel {
    enum Step: Equatable {
        case key(String)
        case index(Int)
        case last
    }

    typealias Answer = Result<JSONValue, PathFailure>

    /// The value at `steps`.
    static func get(_ steps: [Step], in root: JSONValue) -> Answer {
        var value = root
        for step in steps {
            switch child(step, of: value) {
            case .success(let place): value = elements(of: value)[place]
            case .failure(let failure): return .failure(failure)
            }
        }
        return .success(value)
    }

    static func count(_ steps: [Step], in root: JSONValue) -> Result<Int, PathFailure> {
        get(steps, in: root).flatMap { value in
            switch value {
            case .array, .object: .success(elements(of: value).count)
            default: .failure(.mismatch)
            }
        }
    }

    /// The document after an edit with `values`, which are more than one only for array operations.
    static func apply(
        _ edit: Edit,
        _ steps: [Step],
        _ values: [JSONValue],
        to root: JSONValue
    ) -> Answer {
        if let failure = formFailure(edit.operation, steps) { return .failure(failure) }
        if let failure = valueFailure(edit, values) { return .failure(failure) }
        return change(root, steps[...], edit, values)
    }

    private static func formFailure(_ operation: EditOperation, _ steps: [Step]) -> PathFailure? {
        switch (operation, steps.last) {
        case (.pushLast, nil), (.pushFirst, nil), (.addUnique, nil): nil
        case (_, nil): .invalidArguments
        case (.dictAdd, .key), (.dictUpsert, .key), (.insert, .index): nil
        case (.dictAdd, _), (.dictUpsert, _), (.insert, _): .invalidPath
        default: nil
        }
    }

    private static func valueFailure(_ edit: Edit, _ values: [JSONValue]) -> PathFailure? {
        switch edit.operation {
        case .delete: return nil
        case .pushLast, .pushFirst, .insert: return nil
        case .counter:
            let isDelta = Int64(edit.value).map { $0 != 0 && String($0) == edit.value }
            return isDelta == true ? nil : .invalidDelta
        case .addUnique where isContainer(values[0]): return .cannotInsert
        case .addUnique, .dictAdd, .dictUpsert, .replace:
            return values.count == 1 ? nil : .cannotInsert
        }
    }

    private static func change(
        _ value: JSONValue,
        _ steps: ArraySlice<Step>,
        _ edit: Edit,
        _ new: [JSONValue]
    ) -> Answer {
        guard let step = steps.first else { return push(new, to: value, edit.operation) }
        let isLast = steps.count == 1
        switch child(step, of: value) {
        case .success(let place):
            let old = elements(of: value)[place]
            if isLast, edit.operation == .insert {
                return .success(spliced(value, place..<place, new))
            }
            if isLast, edit.operation == .delete {
                return .success(spliced(value, place..<place + 1, []))
            }
            let changed =
                isLast
                ? self.changed(old, edit, new) : change(old, steps.dropFirst(), edit, new)
            return changed.map { spliced(value, place..<place + 1, [$0]) }
        case .failure(.notFound):
            if isLast, edit.operation == .insert, step == .index(elements(of: value).count) {
                let end = elements(of: value).count
                return .success(spliced(value, end..<end, new))
            }
            return added(steps, to: value, edit, new)
        case .failure(let failure): return .failure(failure)
        }
    }

    /// The value at the end of the path after the edit.
    private static func changed(_ old: JSONValue, _ edit: Edit, _ new: [JSONValue]) -> Answer {
        switch edit.operation {
        case .dictAdd: return .failure(.exists)
        case .dictUpsert, .replace: return .success(new[0])
        case .counter: return counted(old, edit)
        default: return push(new, to: old, edit.operation)
        }
    }

    /// Integers that only a `Double` holds in the tree.
    static let wideIntegers = [
        "18446744073709551616", "-9223372036854775809", "123456789012345678901234567890",
    ]

    private static func counted(_ old: JSONValue, _ edit: Edit) -> Answer {
        guard let delta = Int(edit.value) else { return .failure(.invalidDelta) }
        switch old {
        case .integer(let number):
            let (sum, overflows) = number.addingReportingOverflow(delta)
            return overflows ? .failure(.cannotInsert) : .success(.integer(sum))
        case .unsigned: return .failure(.numberOutOfRange)
        case .real:
            let isWide = wideIntegers.contains { JSONValue.parse($0) == old }
            return .failure(isWide ? .numberOutOfRange : .mismatch)
        default: return .failure(.mismatch)
        }
    }

    private static func push(
        _ new: [JSONValue],
        to value: JSONValue,
        _ operation: EditOperation
    ) -> Answer {
        guard case .array(let elements) = value else { return .failure(.mismatch) }
        if operation == .pushFirst { return .success(.array(new + elements)) }
        if operation == .addUnique {
            for element in elements {
                if isContainer(element) { return .failure(.mismatch) }
                if element == new[0] { return .failure(.exists) }
            }
        }
        return .success(.array(elements + new))
    }

    private static func added(
        _ steps: ArraySlice<Step>,
        to value: JSONValue,
        _ edit: Edit,
        _ new: [JSONValue]
    ) -> Answer {
        let isPush = [.pushLast, .pushFirst, .addUnique].contains(edit.operation)
        let creates = isPush || [.dictAdd, .dictUpsert, .counter].contains(edit.operation)
        let hasParent = steps.count == 1 && !isPush
        guard creates, hasParent || edit.makesParents else { return .failure(.notFound) }
        var created = edit.operation == .counter ? .integer(Int(edit.value) ?? 0) : new[0]
        if isPush { created = .array(new) }
        for step in steps.reversed() {
            guard case .key(let name) = step else { return .failure(.notFound) }
            created = .object([.init(name: name, value: created)])
        }
        return .success(.object((value.members ?? []) + (created.members ?? [])))
    }

    // MARK: Trees

    private static func isContainer(_ value: JSONValue) -> Bool {
        value.array != nil || value.members != nil
    }

    private static func elements(of value: JSONValue) -> [JSONValue] {
        value.array ?? value.members?.map(\.value) ?? []
    }

    /// The place of the child that `step` names.
    private static func child(_ step: Step, of value: JSONValue) -> Result<Int, PathFailure> {
        let place: Int?
        switch (step, value) {
        case (.key(let name), .object(let members)):
            place = members.firstIndex { $0.name == name }
        case (.index(let index), .array(let elements)):
            place = index < elements.count ? index : nil
        case (.last, .array(let elements)):
            place = elements.isEmpty ? nil : elements.count - 1
        default: return .failure(.mismatch)
        }
        return place.map { .success($0) } ?? .failure(.notFound)
    }

    private static func spliced(
        _ value: JSONValue,
        _ old: Range<Int>,
        _ new: [JSONValue]
    ) -> JSONValue {
        if var elements = value.array {
            elements.replaceSubrange(old, with: new)
            return .array(elements)
        }
        var members = value.members ?? []
        let name = old.isEmpty ? "" : members[old.lowerBound].name
        members.replaceSubrange(old, with: new.map { .init(name: name, value: $0) })
        return .object(members)
    }
}
