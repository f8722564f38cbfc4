//! Objects beside the ledger.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use depute_ledger::record::{Inputs, Verdict};
use depute_ledger::{AppendError, Code, Digest, OBJECT_LIMIT, ObjectError, Reader};

use crate::support::*;

#[test]
fn an_object_is_stored_once_and_read_back() {
    let place = Place::new();
    let ledger = place.open();
    let digest = ledger.put_object(b"policy").unwrap();
    assert_eq!(digest, Digest::of(b"policy"));
    assert_eq!(ledger.put_object(b"policy").unwrap(), digest);
    let names: Vec<_> = fs::read_dir(place.path("objects")).unwrap().map(|e| e.unwrap()).collect();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0].file_name().to_str(), Some(digest.to_hex().as_str()));
    assert_eq!(names[0].metadata().unwrap().permissions().mode() & 0o7777, 0o400);

    let reader = Reader::open(&place.dir).unwrap();
    assert_eq!(reader.get_object(digest).unwrap(), b"policy");
    let missing = Digest::of(b"other");
    assert!(matches!(reader.get_object(missing), Err(ObjectError::Missing(d)) if d == missing));
}

#[test]
fn a_missing_or_damaged_object_is_found_and_a_new_put_mends_it() {
    let place = Place::new();
    let ledger = place.open();
    let (policy, request) = (ledger.put_object(b"policy").unwrap(), ledger.put_object(b"request").unwrap());
    let mut body = decision(node(1), Verdict::Refused);
    body.inputs = Inputs { policy: Some(policy), request: Some(request), ..Inputs::default() };
    let seq = ledger.append(OP, body).unwrap().seq;
    let report = place.verify();
    assert_eq!((report.damage, report.semantics.objects), (0, 2));

    let path = |digest: Digest| place.path("objects").join(digest.to_hex());
    fs::remove_file(path(policy)).unwrap();
    fs::set_permissions(path(request), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path(request), b"requesT").unwrap();
    let report = place.verify();
    let found: Vec<_> = report.findings.iter().map(|f| (f.code, f.seq)).collect();
    assert_eq!(found, [(Code::ObjectMissing, Some(seq)), (Code::ObjectDamaged, Some(seq))]);
    assert_eq!(report.findings[1].expected, Some(request.to_string()));
    let reader = Reader::open(&place.dir).unwrap();
    assert!(matches!(reader.get_object(request), Err(ObjectError::Damaged { .. })));

    ledger.put_object(b"policy").unwrap();
    ledger.put_object(b"request").unwrap();
    assert!(place.verify().is_intact());
}

#[test]
fn an_object_may_have_the_limit_and_no_byte_more() {
    let place = Place::new();
    let ledger = place.open();
    let mut bytes = vec![7; usize::try_from(OBJECT_LIMIT).unwrap()];
    let digest = ledger.put_object(&bytes).unwrap();
    assert_eq!(Reader::open(&place.dir).unwrap().get_object(digest).unwrap(), bytes);
    bytes.push(7);
    assert!(matches!(
        ledger.put_object(&bytes),
        Err(AppendError::ObjectTooLarge { len }) if len == OBJECT_LIMIT + 1
    ));
}
