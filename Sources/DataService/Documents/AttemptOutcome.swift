internal import Engine
internal import Vocabulary

/// How one attempt at an operation ended.
enum AttemptOutcome {
    /// The visitor got the document.
    case found
    case stored(Stored)
    /// The write is prepared: its outcome follows once enough copies have it, or not.
    case prepared(Stored)
    /// A document has to be read, a vBucket loaded, a hand over ended or memory freed first.
    case waits(Wait)
    case refused(DocumentRefusal)
}

extension AttemptOutcome {
    /// A read; `visit` gets the document if it found one.
    init(_ outcome: ReadOutcome, _ visit: (Item, CAS) -> Void) {
        if case .found(let item, let cas) = outcome {
            visit(item, cas)
            self = .found
        } else {
            self.init(withoutItem: outcome)
        }
    }

    /// A read that found no document.
    init(withoutItem outcome: ReadOutcome) {
        self =
            switch outcome {
            case .found: preconditionFailure("the caller visits a document that was found")
            case .wouldBlock(let wait): .waits(wait)
            case .notFound: .refused(.notFound)
            case .locked: .refused(.locked)
            case .temporaryFailure: .refused(.temporaryFailure)
            case .notMyVBucket: .refused(.notMyVBucket)
            case .inProgress: .refused(.writeInProgress)
            case .recommitting: .refused(.writeRecommitting)
            }
    }
}

extension DocumentRefusal {
    /// The reason why a write had no effect.
    init(_ outcome: MutationOutcome) {
        self =
            switch outcome {
            case .stored, .prepared, .wouldBlock, .noRoom:
                preconditionFailure("the caller handles what is no refusal")
            case .inProgress: .writeInProgress
            case .recommitting: .writeRecommitting
            case .notFound: .notFound
            case .exists: .exists
            case .locked: .locked
            case .notLocked: .notLocked
            case .notStored: .notStored
            case .notANumber: .notANumber
            case .tooLarge: .tooLarge
            case .notMyVBucket: .notMyVBucket
            case .temporaryFailure: .temporaryFailure
            }
    }
}
